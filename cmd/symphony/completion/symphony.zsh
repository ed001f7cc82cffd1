#compdef symphony
# Completion of symphony's commands, flags, issues and requests for zsh.
_symphony() {
  local program=${(Q)words[1]/#\~\//$HOME/} line
  local -a items
  (( $+commands[$program] )) || [[ -x $program ]] || program=symphony
  for line in "${(@f)$("$program" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && items+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  (( $#items )) && _describe symphony items || _files
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _symphony "$@"; else compdef _symphony symphony; fi
