# Completion of symphony's commands, flags, issues and requests for bash.
_symphony() {
  local program=${COMP_WORDS[0]/#\~\//$HOME/} line
  type -P "$program" >/dev/null || program=symphony
  COMPREPLY=()
  while IFS=$'\t' read -r line _; do COMPREPLY+=("$line"); done < <("$program" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _symphony symphony
