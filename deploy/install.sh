#!/bin/sh
# In a builder stage: installs a lock file into /opt/tacit, writes its bill of materials, slims it.
set -eu
tools/bin/pip --python /opt/tacit/bin/python install --no-deps --no-compile --require-hashes -r "$1"
tools/bin/cyclonedx-py environment --output-reproducible --of JSON \
    -o /opt/tacit/bill-of-materials.json /opt/tacit/bin/python
python slim.py /opt/tacit
