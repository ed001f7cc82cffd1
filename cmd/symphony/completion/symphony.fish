# Completion of symphony's commands, flags, issues and requests for fish.
function __symphony_complete
    set -l words (commandline -opc)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    command -q $program; or set program symphony
    command $program complete -- $words[2..] (commandline -ct) 2>/dev/null
end
complete -c symphony -a '(__symphony_complete)'
