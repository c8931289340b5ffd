
# Labels, workflows and settings are asked for when they are needed.
_workrail_names() {
    local -a names
    names=(${(f)"$(workrail complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#names} )); then
        compadd -a names
    else
        _workrail "$@"
    fi
}
compdef _workrail_names workrail
# As a file among the shell's functions it is read at the first completion, which it then has to answer.
if [ "$funcstack[1]" = "_workrail" ]; then
    _workrail_names "$@"
fi
