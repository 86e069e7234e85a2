#!/bin/sh
# keep_resources.sh COMPILER ARGUMENT... -o OBJECT: runs the compiler. Writes the lines of ptxas about the
# kernels' registers only to OBJECT.resources, for tests/cuda/spills.py, and also prints all other output.
last='' object=''
for argument; do
  [ "$last" = -o ] && object=$argument
  last=$argument
done
"$@" 2> "$object.resources"
status=$?
grep -v -e '^ptxas info ' -e '^ *[0-9]* bytes stack frame' "$object.resources" >&2
exit $status
