#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Boots a kernel with an initramfs in QEMU, has it run one job, and says how that ended.
#
#   scripts/qemu.sh --kernel BZIMAGE --initrd FILE [--initrd FILE ...] --run-dir DIR --job NAME [option ...]
#
#   --initrd FILE       part of the initramfs; later files add to and replace what earlier ones hold
#   --run-dir DIR       emptied; receives console.log, and share/, which the guest mounts at /share
#   --job NAME          what the guest's init runs: a file in /project/tests
#   --job-timeout S     the guest stops the job after that (default 60)
#   --timeout S         the machine is stopped after that, whatever it does (default: job time + 60)
#   --memory MIB, --smp N, --append WORDS (may be given again), --qemu-arg ARG (as well)
#   --follow            prints the job's output as it comes, and the line about its end on stderr
#   --interactive       the guest's console is this terminal
#
# Prints one line: `finished STATUS`, `panicked`, `timeout` or `no-answer`. The guest's answer is the file that
# its init leaves on the share, with this run's token; QEMU's own exit status says nothing about the guest.
# Exit status: 0 finished 0, 1 finished otherwise, 3 panicked, 4 no answer, 124 time limit, 2 could not be run.
#
# ACCEL=kvm or ACCEL=tcg in the environment overrides the choice of scripts/qemu-accel.sh.

set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname -- "$0")/lib.sh"

kernel='' run_dir='' job='' job_timeout=60 limit='' memory=1536 smp=2 append='' follow='' interactive=''
initrds=() qemu_args=()

usage() {
	say "qemu.sh: $1"
	sed -n '3,16s/^# \?//p' "$0" >&2
	exit 2
}

# Anything that keeps the guest from being started.
cannot() {
	say "qemu.sh: $1${2:+; $2}"
	exit 2
}

while (($#)); do
	case $1 in
	--follow) follow=1 ;;
	--interactive) interactive=1 ;;
	--*) (($# > 1)) || usage "$1 needs a value" ;;&
	--kernel) kernel=$2 ;;&
	--initrd) initrds+=("$2") ;;&
	--run-dir) run_dir=$2 ;;&
	--job) job=$2 ;;&
	--job-timeout) job_timeout=$2 ;;&
	--timeout) limit=$2 ;;&
	--memory) memory=$2 ;;&
	--smp) smp=$2 ;;&
	--append) append+="${append:+ }$2" ;;&
	--qemu-arg) qemu_args+=("$2") ;;&
	--kernel | --initrd | --run-dir | --job | --job-timeout | --timeout | --memory | --smp | --append | --qemu-arg) shift ;;
	*) usage "unknown option $1" ;;
	esac
	shift
done
[[ $kernel && $run_dir && $job && ${#initrds[@]} -gt 0 ]] || usage '--kernel, --initrd, --run-dir and --job are needed'
limit=${limit:-$((job_timeout + 60))}

[[ -r $kernel ]] || cannot "no kernel image $kernel" 'build one with: make kernel'
for file in "${initrds[@]}"; do
	[[ -r $file ]] || cannot "no initramfs $file" 'build one with: make guest'
done
command -v qemu-system-x86_64 >/dev/null || cannot 'qemu-system-x86_64 is missing' 'install it with: apt-get install qemu-system-x86'

console=$run_dir/console.log
share=$run_dir/share
token=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')

prepare() {
	rm -rf -- "${run_dir:?}"
	mkdir -p -- "$share"
	# The kernel looks for the next archive at multiples of four bytes, and skips zeros.
	for file in "${initrds[@]}"; do
		cat -- "$file" >>"$run_dir/initramfs"
		truncate --size=%512 "$run_dir/initramfs"
	done
	: >"$console"
	: >"$share/output"
}

accelerator() {
	case ${ACCEL:-$("$project/scripts/qemu-accel.sh" "$kernel")} in
	kvm) printf '%s\n' -accel kvm -cpu host ;;
	tcg) printf '%s\n' -accel tcg,thread=multi -cpu max ;;
	*) return 1 ;;
	esac
}

# The command, one word a line into the array `machine`.
compose() {
	local accel
	mapfile -t accel < <(accelerator)
	((${#accel[@]})) || cannot "ACCEL=${ACCEL:-} is neither kvm nor tcg" 'unset it, or choose one of them'
	say "guest: ${accel[1]%%,*}, $memory MiB, $smp CPUs, job $job, at most ${limit} s"
	machine=(qemu-system-x86_64 "${accel[@]}" -m "$memory" -smp "$smp" -nic none -no-reboot
		-display none -monitor none -kernel "$kernel" -initrd "$run_dir/initramfs"
		-fsdev "local,id=share,path=$share,security_model=none"
		-device "virtio-9p-pci,fsdev=share,mount_tag=share"
		-append "console=ttyS0 panic=-1 rdinit=/init job=$job job_timeout=$job_timeout token=$token${interactive:+ interactive=1 quiet} $append")
	if [[ $interactive ]]; then
		# Control-C goes to the guest; control-A x ends QEMU.
		machine+=(-chardev "stdio,id=tty,mux=on,signal=off,logfile=$console" -serial chardev:tty -mon chardev=tty)
	else
		machine+=(-serial "file:$console")
	fi
	machine+=(${qemu_args[@]+"${qemu_args[@]}"})
}

boot() {
	local rc=0 follower=''
	if [[ $interactive ]]; then
		timeout --foreground --kill-after=5 "$limit" "${machine[@]}" || rc=$?
		return "$rc"
	fi
	timeout --signal=KILL "$limit" "${machine[@]}" >"$run_dir/qemu.log" 2>&1 </dev/null &
	guest=$!
	if [[ $follow ]]; then
		tail --pid="$guest" -n +1 -s 0.2 -f -- "$share/output" &
		follower=$!
	fi
	wait_for_guest || rc=$?
	[[ ! $follower ]] || wait "$follower" || true
	return "$rc"
}

# Waits with one line of progress every ten seconds; the status is QEMU's, or 137 when its time was up.
wait_for_guest() {
	local start=$SECONDS next=10
	while kill -0 "$guest" 2>/dev/null; do
		if [[ ! $follow ]] && ((SECONDS - start >= next)); then
			say "guest: job $job ... $(elapsed $((SECONDS - start))) (log: $console)"
			next=$((next + 10))
		fi
		sleep 0.2
	done
	wait "$guest" 2>/dev/null
}

# What became of the guest, from its log and its answer.
verdict() {
	local qemu_rc=$1 answered='' status=''
	[[ ! -r $share/status ]] || read -r answered status <"$share/status" || true
	if grep -q 'Kernel panic - not syncing' "$console"; then
		conclude 3 panicked
	elif ((qemu_rc == 124 || qemu_rc == 137)); then
		conclude 124 timeout
	elif [[ $answered != "$token" || ! $status =~ ^[0-9]+$ ]]; then
		conclude 4 no-answer
	else
		conclude $((status != 0)) "finished $status"
	fi
}

conclude() {
	local rc=$1 what=$2
	if [[ $follow || $interactive ]]; then say "$what"; else echo "$what"; fi
	case $rc in
	0 | 1) ;;
	3) tell "the guest's kernel panicked" ;;
	124) tell "the guest was stopped after $limit s" ;;
	4) tell "the guest ended without an answer (QEMU said: $(head -c 300 "$run_dir/qemu.log" 2>/dev/null))" ;;
	esac
	rm -f -- "$run_dir/initramfs"
	say "console log: $console"
	exit "$rc"
}

tell() {
	say "qemu.sh: $1; the end of its log:"
	tail -n 25 -- "$console" | sed 's/^/    /' >&2
}

guest=''
# The command `timeout` hands the signal on to QEMU.
trap '[[ ! $guest ]] || kill -TERM "$guest" 2>/dev/null || true' EXIT
prepare
compose
qemu_rc=0
boot || qemu_rc=$?
verdict "$qemu_rc"
