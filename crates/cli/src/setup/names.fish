
# Labels, workflows and settings are asked for when they are needed.
complete -c workrail -f -a '(workrail complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
