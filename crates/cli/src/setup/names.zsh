
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
