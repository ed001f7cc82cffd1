#!/bin/bash
# Logs every hook and agent, and reports what must never happen: an agent that is alive when another hook or agent of the
# workspace starts, a new workspace that is not empty, work in an incomplete workspace. It does not rely on reports of the
# program.
what=$1 key=${PWD##*/} ledger=%[1]s/ledger
shift
echo "$what $key $SYMPHONY_RUN_ID $$" >> $ledger/log
wrong() { echo "$what of $SYMPHONY_RUN_ID in $PWD: $*" >> $ledger/wrong; }
while read -r pid; do
  { IFS= read -r -d '' first; } 2>/dev/null < /proc/$pid/cmdline
  case $first in */fake-codex) wrong "agent $pid is alive";; esac
done < <(cat $ledger/agents.$key 2>/dev/null)
case ${SYMPHONY_CRASH_AT}${SYMPHONY_CRASH_LOG} in ?*) wrong "the crash variables are set";; esac
whole() { [ -e made/1 ] && [ -e made/2 ] && [ -e made/3 ] || wrong "incomplete: $(find . | tr '\n' ' ')"; }
case $what in
after_create)
  [ -z "$(ls -A | grep -v '^.git')" ] || wrong "not empty: $(find . | tr '\n' ' ')"
  [ ! -e %[1]s/refuse ] || { mkdir begun; touch begun/file; rm %[1]s/refuse; exit 1; }
  mkdir made; touch made/1 made/2; sleep %[2]g; touch made/3;;
before_run | before_remove) whole;;
agent)
  # The codex that verifies a commit works in a checkout of it, where nothing is made.
  case $PWD in */verify/tree/*) exec "$@";; esac
  whole
  echo $$ >> $ledger/agents.$key
  exec "$@";;
esac
