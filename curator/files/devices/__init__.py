"""What devices and homes write: DSMR, IEC 62056-21, SenML, InfluxDB, Home Assistant."""
