# What symphony's commands take, for bash. The program itself is asked at each press of the tab key.
_symphony() {
  local program=${COMP_WORDS[0]} line=${COMP_LINE:0:COMP_POINT} kind value description
  program=${program/#\~\//$HOME/}
  type -P "$program" >/dev/null || program=symphony
  COMPREPLY=()
  {
    IFS= read -r kind
    while IFS=$'\t' read -r value description; do
      # Bash completes what stands behind the last = only.
      [[ $value == --*=* && $COMP_WORDBREAKS == *=* ]] && value=${value#*=}
      COMPREPLY+=("$value")
    done
  } < <("$program" complete --line "$line" 2>/dev/null)
  # With no candidates bash goes on with files, unless it is told otherwise. The bash of macOS can't be told.
  if [[ $kind == directories ]]; then
    compopt -o dirnames +o default +o bashdefault 2>/dev/null
  elif [[ $kind != files ]]; then
    compopt +o default +o bashdefault 2>/dev/null
  fi
  return 0
}
complete -o bashdefault -o default -F _symphony symphony
