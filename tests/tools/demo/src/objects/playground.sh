# Read by the playground's shell.
PS1='slipway> '

# What each node does, and why; with -w as it changes.
nodes() {
    local notes='.metadata.annotations'
    kubectl get nodes "$@" --output=custom-columns="NODE:.metadata.name,\
STATE:$notes.machineconfiguration\.openshift\.io/state,PHASE:$notes.slipway\.dev/phase,\
CORDONED:.spec.unschedulable,REASON:$notes.machineconfiguration\.openshift\.io/reason"
}

# A shell on a host, or a command there.
host() {
    local name=$1
    shift
    nsenter --all --target "$(cat "$SLIPWAY_HOSTS/$name/leader")" "${@:-bash}"
}

things() {
    cat <<'THINGS'

Six things to try, in this folder:

  1. nodes -w                        what each node does, as it changes (Ctrl-C ends it); kubectl get mcp
  2. kubectl apply -f file.yaml      a file that needs no reboot: there in seconds, no node goes out of service
  3. kubectl apply -f os.yaml        another OS: fetch, drain, reboot, verify; one node after the other
  4. kubectl apply -f budget.yaml    a budget that lets no pod go: apply it, then os.yaml, and `nodes` names what the drain
                                     waits for; kubectl delete -f budget.yaml lets it go on
  5. kubectl apply -f broken.yaml    an OS whose kubelet fails: the node rolls back and says why, the pool stops;
                                     kubectl delete -f broken.yaml

  6. kubectl run mine --image=registry.lab/busybox:1     a process of your own on a worker: kubectl logs, kubectl exec -it mine -- sh;
                                     apply os.yaml, and the drain of its node evicts it (kubectl get pods -w)

The controller and the daemons are pods, too: kubectl get pods -n openshift-machine-config-operator -o wide
`host worker-0` is a shell on a host. `things` prints this again. Ctrl-D ends the cluster.

THINGS
}

things
