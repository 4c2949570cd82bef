# Saves a host's settings before a TCP profile and restores them, whatever happens to the process that asked. POSIX sh.
#
# Run as root: sh -c 'eval "$1"' longhaul-keeper TEXT keep LEASE INTERFACE QDISC SYSCTL...
# LEASE is in seconds. It also saves the connected routes of INTERFACE, unless that is "-". A root qdisc that will have
# the handle QDISC there is deleted afterwards; "-": there will be none.
#
# The script saves the present settings, starts a guard in the background, prints "ready" and then reads heartbeats from
# stdin. The guard restores the settings when it reads "end", when stdin ends, and when no new heartbeat came for LEASE
# seconds (a cut network closes nothing on this side). The last line printed is "restored", "expired" (the guard restored
# earlier because the lease was over) or "failed WHAT". If the guard itself is killed, the file stays, and the next start
# restores from it before it reads anything, or sets it aside and ends. Exit code 3: another measurement is running here.
set -u
umask 077
PATH=$PATH:/usr/sbin:/sbin # sudo keeps a user's path on some systems, and tc is there
text=$1 role=$2 lease=$3 interface=$4 qdisc=$5
shift 5
folder=/run/longhaul-keeper
# One file for each network namespace: a container has its own sysctls and routes.
here=$folder/$(readlink /proc/self/ns/net | tr -dc 0-9)
before=$here.before

path() { echo "/proc/sys/$(echo "$1" | tr . /)"; }

read_before() {
  for name; do
    value=$(cat "$(path "$name")") || return 1
    # shellcheck disable=SC2086 # blanks instead of tabs
    echo sysctl "$name" $value || return 1
  done
  [ "$interface" = - ] && return
  [ "$qdisc" = - ] || echo qdisc "$interface" "$qdisc" || return 1
  routes=$(ip -4 route show table main) || return 1
  echo "$routes" | sed -e 's/ linkdown//' -e 's/ dead//' -e 's/ *$//' | while read -r route; do
    case " $route " in
      *" dev $interface proto kernel scope link "*) echo "route $route" || exit 1 ;;
    esac
  done
}

restore() {
  failed=
  while read -r kind name value; do
    # shellcheck disable=SC2086 # the words of a route
    case $kind in
      sysctl) echo "$value" >"$(path "$name")" || failed="$failed $name" ;;
      route) ip -4 route change $name $value || failed="$failed $name" ;;
      qdisc)
        case $(tc qdisc show dev "$name" root) in
          *" $value root "*) tc qdisc del dev "$name" root || failed="$failed qdisc of $name" ;;
        esac
        ;;
    esac
  done <"$before" 2>/dev/null
  [ -z "$failed" ] && rm -f "$before"
}

keep() {
  for tool in flock setsid ip; do
    if ! command -v "$tool" >/dev/null; then
      echo "$tool is missing there: apt-get install util-linux iproute2"
      exit 1
    fi
  done
  mkdir -p "$folder" || exit 1
  exec 9>"$here.lock"
  flock -n 9 || exit 3
  if [ -e "$before" ] && ! restore; then
    mv "$before" "$before.spoilt"
    echo "cannot restore what a killed measurement left:$failed; the settings it saved are now in $before.spoilt"
    exit 1
  fi
  # Of processes that were killed.
  for file in "$here".*.beat "$here".*.result "$here".*.result.new; do
    process=${file#"$here".}
    kill -0 "${process%%.*}" 2>/dev/null || rm -f "$file"
  done
  beat=$here.$$.beat result=$here.$$.result
  if ! { read_before "$@" >"$before.new" && mv "$before.new" "$before" && echo 0 >"$beat"; }; then
    rm -f "$before.new" "$before" "$beat" # what was not saved whole was not changed either
    exit 1
  fi
  # shellcheck disable=SC2016 # its own first argument
  setsid sh -c 'eval "$1"' longhaul-keeper "$text" guard "$lease" - - $$ </dev/null >/dev/null 2>&1 &
  guard=$!
  exec 9>&-
  echo ready
  while read -r word && [ "$word" != end ] && [ ! -e "$result" ]; do echo "$word" >"$beat"; done
  echo end >"$beat"
  while [ ! -e "$result" ] && kill -0 "$guard" 2>/dev/null; do sleep 0.2; done
  if [ -e "$result" ]; then
    answer=$(cat "$result")
    # The next measurement may begin as soon as it reads the answer: by then the guard has let the lock go.
    wait "$guard"
  else
    # The guard was killed. A free lock shows that no other measurement restored and started meanwhile.
    exec 9>"$here.lock"
    answer=expired
    if flock -n 9; then
      restore && answer=restored || answer=failed$failed
    fi
  fi
  rm -f "$beat" "$result"
  echo "$answer"
}

guard() {
  trap '' HUP INT TERM
  beat=$here.$1.beat result=$here.$1.result
  last='' silent=0 answer=restored
  # Child processes do not inherit the lock: it is free as soon as the guard ends.
  while now=$(cat "$beat" 9>&-) && [ "$now" != end ]; do
    if [ "$now" = "$last" ]; then silent=$((silent + 1)); else silent=0 last=$now; fi
    if [ "$silent" -ge "$lease" ]; then
      answer=expired
      break
    fi
    sleep 1 9>&-
  done
  restore || answer=failed$failed
  rm -f "$beat"
  if kill -0 "$1" 2>/dev/null; then
    echo "$answer" >"$result.new"
    mv "$result.new" "$result"
  fi
}

"$role" "$@"
