
# Labels, workflows and settings are asked for when they are needed.
_workrail_names() {
    _workrail "$@"
    local names
    names=$(workrail complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ -n "$names" ]; then
        local IFS=$'\n'
        COMPREPLY=($(compgen -W "$names" -- "${COMP_WORDS[COMP_CWORD]}"))
    fi
}
complete -F _workrail_names -o bashdefault -o default workrail
