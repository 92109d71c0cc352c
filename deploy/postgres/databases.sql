-- One database for each service: none reads another's.
CREATE DATABASE tacit_coordinator;
CREATE DATABASE tacit_aggregator_a;
CREATE DATABASE tacit_aggregator_b;
CREATE DATABASE tacit_aggregator_c;
CREATE DATABASE tacit_curator;
