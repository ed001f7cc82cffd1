# What symphony's commands take, for fish. The program itself is asked at each press of the tab key.
function __symphony_ask
    set -l words (commandline -opc)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -e words[1]
    command -q $program; or set program symphony
    command $program complete -- $words (commandline -ct) 2>/dev/null
end

function __symphony_candidates
    set -l lines (__symphony_ask)
    if test "$lines[1]" = directories
        __fish_complete_directories (commandline -ct) ''
    end
    set -e lines[1]
    string join -- \n $lines
end

function __symphony_wants_files
    set -l lines (__symphony_ask)
    test "$lines[1]" = files; and test (count $lines) -eq 1
end

complete -c symphony -f -a '(__symphony_candidates)'
complete -c symphony -n __symphony_wants_files -F
