# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# What the provisioning scripts share: messages, progress, the cache, locks, root and apt.
# Sourced, not run. Results go to stdout; everything here that speaks, speaks on stderr.

# The project's own folder and the folder of everything downloaded or built outside it.
# The scripts that source this file use both.
# shellcheck disable=SC2034
project=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:?HOME is not set; set it or XDG_CACHE_HOME}/.cache}/rdma_dmabuf

# --- messages ---------------------------------------------------------------------------------

say() { printf '%s\n' "$*" >&2; }

# die MESSAGE [REMEDY]: the thing that is wrong, and on the same line what mends it.
die() {
	printf '%s: %s%s\n' "${0##*/}" "$1" "${2:+; $2}" >&2
	exit 1
}

# --- progress ---------------------------------------------------------------------------------

# Elapsed seconds as 5s, 1m05s, 1h02m05s.
elapsed() {
	local s=$1
	if ((s >= 3600)); then
		printf '%dh%02dm%02ds' $((s / 3600)) $((s % 3600 / 60)) $((s % 60))
	elif ((s >= 60)); then
		printf '%dm%02ds' $((s / 60)) $((s % 60))
	else
		printf '%ds' "$s"
	fi
}

# Repeats one line on a terminal every second; elsewhere prints a plain line every half minute.
# Ends by itself when the script that started it is gone.
ticker() {
	local what=$1 log=$2 start=$SECONDS period=30
	[[ -t 2 ]] && period=1
	while sleep "$period" && kill -0 $$ 2>/dev/null; do
		if [[ -t 2 ]]; then
			printf '\r\033[K%s ... %s (log: %s)' "$what" "$(elapsed $((SECONDS - start)))" "$log" >&2
		else
			say "$what ... $(elapsed $((SECONDS - start))) (log: $log)"
		fi
	done
}

# run_logged WHAT LOG COMMAND...: output to the log (appended), one progress line to people.
# The command stays in the foreground, so that an interrupt from the keyboard reaches it.
run_logged() {
	local what=$1 log=$2 start=$SECONDS rc=0 ticker_pid
	shift 2
	mkdir -p -- "$(dirname -- "$log")"
	printf '\n== %s: %s\n' "$(date '+%F %T')" "$*" >>"$log"
	say "$what (log: $log)"
	# Without the lock's descriptors: a ticker that outlives us must not hold a lock.
	(
		close_locks
		ticker "$what" "$log"
	) </dev/null >/dev/null &
	ticker_pid=$!
	"$@" >>"$log" 2>&1 </dev/null || rc=$?
	# The ticker sleeps in a child of its own, which ends within its period.
	kill "$ticker_pid" 2>/dev/null || true
	wait "$ticker_pid" 2>/dev/null || true
	[[ -t 2 ]] && printf '\r\033[K' >&2
	if ((rc == 0)); then
		say "$what: done in $(elapsed $((SECONDS - start)))"
	else
		tail -n 20 -- "$log" | sed 's/^/    /' >&2
		say "$what: failed with code $rc after $(elapsed $((SECONDS - start))); the whole log: $log"
	fi
	return "$rc"
}

# --- cache and locks --------------------------------------------------------------------------

lock_fds=()

# lock NAME: waits until no other run holds it; released when this process ends.
lock() {
	local fd file=$cache/locks/$1
	mkdir -p -- "$cache/locks"
	exec {fd}>"$file"
	lock_fds+=("$fd")
	flock --nonblock "$fd" && return
	say "another run is working on '$1'; waiting for it"
	flock "$fd"
}

close_locks() {
	local fd
	for fd in ${lock_fds[@]+"${lock_fds[@]}"}; do
		exec {fd}>&-
	done
}

# First 16 hex digits of the SHA-256 of standard input: short enough for a folder's name.
short_hash() { sha256sum | cut -c1-16; }

# A stamp holds the hashes of an entry's results. Written last, so that an entry without one,
# or whose files are not those of the stamp, is known to be unfinished or damaged.
# write_stamp ENTRY FILE... (FILE relative to ENTRY)
write_stamp() {
	local entry=$1
	shift
	(cd -- "$entry" && sha256sum -- "$@" >stamp.new && sync -- "$@" stamp.new && mv -- stamp.new stamp)
}

stamp_is_good() {
	[[ -s $1/stamp ]] && (cd -- "$1" && sha256sum --check --status --strict stamp) 2>/dev/null
}

# --- root -------------------------------------------------------------------------------------

can_be_root() {
	((EUID == 0)) || { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; }
}

as_root() {
	if ((EUID == 0)); then
		"$@"
	else
		sudo -- "$@"
	fi
}

# --- Debian and its mirror --------------------------------------------------------------------

debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# shellcheck source=/dev/null
os_release() { (. /etc/os-release && printf '%s' "${!1:-}"); }

# mirror_site main|security: the address from which this machine's own apt takes its own release.
# Asked as "which lists would an update fetch": that needs neither root, nor the lists, nor the network.
mirror_site() {
	local suites
	suites="($(os_release VERSION_CODENAME)|stable|oldstable)"
	[[ $1 == security ]] && suites+="[-/](security|updates)"
	apt-get --print-uris update 2>/dev/null |
		awk -F"'" -v want="/dists/$suites/InRelease\$" -v security="$([[ $1 != security ]] || echo 1)" '
			$2 ~ want && ($2 ~ /security/) == (security != "") { sub(want, "", $2); print $2; found = 1; exit }
			END { exit !found }'
}

# Suites that may hold a package newer than the machine's own, nearest first.
newer_suites() {
	local codename
	codename=$(os_release VERSION_CODENAME)
	printf '%s\n' "$codename" "$codename-security" "$codename-backports" \
		trixie trixie-security trixie-backports forky sid | awk '!seen[$0]++'
}

# suite_apt SUITE COMMAND...: apt-get or apt-cache over that suite alone, with a state of its own.
# The machine's sources, pins, package state and caches are neither read nor written, so that
# nothing from another release can reach the machine: this downloads, it never installs.
suite_apt() {
	local suite=$1 state=$cache/apt/$1 command=$2
	shift 2
	"$command" \
		-o Dir::State="$state/state" -o Dir::State::lists="$state/lists" \
		-o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
		-o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=2 \
		-o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 \
		-o APT::Architecture=amd64 -o APT::Architectures::=amd64 \
		-o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false \
		"$@"
}

# suite_update SUITE: fetches the suite's lists, unless they were fetched within the last hour.
# SUITE/source has the lists of source packages in place of the binary ones.
# 1: the mirror does not have that suite; 2: no mirror, or it does not answer.
suite_update() {
	local suite=${1%/source} state=$cache/apt/$1 kind=main site type=deb
	[[ $1 != */source ]] || type=deb-src
	[[ $suite == *-security ]] && kind=security
	site=$(mirror_site "$kind") || { [[ $kind == security ]] && return 1 || return 2; }
	[[ $(find "$state/updated" -mmin -60 2>/dev/null) ]] && return
	mkdir -p -- "$state/state" "$state/lists/partial" "$state/cache/archives/partial"
	rm -f -- "$state/updated"
	: >"$state/status"
	printf '%s [signed-by=%s] %s %s main\n' "$type" "$debian_keyring" "$site" "$suite" >"$state/sources.list"
	if suite_apt "$1" apt-get --error-on=any update >"$state/update.log" 2>&1 </dev/null; then
		touch -- "$state/updated"
		return
	fi
	! grep -qE 'Could not (resolve|connect)|Temporary failure|[Tt]imed out|No route|unreachable' "$state/update.log" || return 2
	return 1
}

# find_in_suites PACKAGE VERSION-REGEX: "suite version" of the first suite that has a match.
find_in_suites() {
	local package=$1 pattern=$2 suite version rc
	for suite in $(newer_suites); do
		rc=0
		suite_update "$suite" || rc=$?
		((rc != 2)) || return 2
		((rc == 0)) || continue
		version=$(suite_versions "$suite" "$package" | grep -m1 -E -- "$pattern") || continue
		printf '%s %s\n' "$suite" "$version"
		return
	done
	return 1
}

# suite_versions SUITE PACKAGE: the versions of a package there, newest first.
suite_versions() {
	suite_apt "$1" apt-cache madison "$2" 2>/dev/null | awk -F'|' '{ gsub(/ /, "", $2); print $2 }'
}

# suite_download SUITE PACKAGE=VERSION FOLDER: the .deb, checked by apt against the signed lists.
suite_download() {
	local suite=$1 package=$2 folder=$3
	mkdir -p -- "$folder"
	(cd -- "$folder" && suite_apt "$suite" apt-get download "$package")
}

# The sentence for every failure to reach a mirror.
mirror_remedy() {
	if mirror_site main >/dev/null; then
		printf 'check the network and "apt-get update"'
	else
		printf 'apt knows no Debian mirror for this release; add one to /etc/apt/sources.list'
	fi
}
