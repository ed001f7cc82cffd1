# Runs a pass, which may report nothing but that the disk is full.
symphony tick --lock-timeout $PATIENCE 2> err
code=$?
cat err
grep "^symphony: " err | grep -v "^symphony: disk_full: " && exit 1
test $code = $(grep -c "^symphony: disk_full: " err)
