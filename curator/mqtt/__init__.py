"""Meters on MQTT 5: subscribed at QoS 1, acknowledged when durable, refused to a dead-letter topic.

The package needs the extra `mqtt`; a curator without a broker in its settings never loads it.
"""
