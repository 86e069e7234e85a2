#!/bin/sh
# keep_resources.sh COMPILER ARGUMENT... -o OBJECT: runs the compiler. What ptxas tells of the kernels' registers goes
# into OBJECT.resources alone, for tests/cuda/spills.py; the rest is told, too.
last='' object=''
for argument; do
  [ "$last" = -o ] && object=$argument
  last=$argument
done
"$@" 2> "$object.resources"
status=$?
grep -v -e '^ptxas info ' -e '^ *[0-9]* bytes stack frame' "$object.resources" >&2
exit $status
