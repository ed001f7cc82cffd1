#!/bin/sh
# GitLab as symphony's tracker: the issues of one project, with labels as states. It needs curl and jq, and these variables:
#   GITLAB_PROJECT  group/project
#   GITLAB_TOKEN    a token with the scope api; write tracker.api_key: $GITLAB_TOKEN, so that neither hooks nor agents get it
#   GITLAB_URL      https://gitlab.com if it is not set
#   GITLAB_STATES   the labels that are states, separated by commas: Todo,In Progress,Human Review if it is not set
# An open issue without such a label is in the state open, a closed one in the state closed.
set -eu
: "${GITLAB_PROJECT:?is not set}" "${GITLAB_TOKEN:?is not set}"
states=${GITLAB_STATES-Todo,In Progress,Human Review}
api=${GITLAB_URL:-https://gitlab.com}/api/v4/projects/$(jq -rn --arg p "$GITLAB_PROJECT" '$p | @uri')/issues
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' TERM
cat > "$dir/request"

# field FILTER prints a value of the request.
field() { jq -r "$1" "$dir/request"; }

# call METHOD PATH [BODY] writes GitLab's answer to $dir/answer, or exits with the code of its error. The token and the texts are in no
# argument: other users can read arguments.
call() {
	printf '%s' "${3-}" > "$dir/body"
	status=$(printf 'header = "PRIVATE-TOKEN: %s"\n' "$GITLAB_TOKEN" | curl --config - --silent --show-error --max-time 20 --globoff \
		--request "$1" --header 'Content-Type: application/json' --data "@$dir/body" \
		--dump-header "$dir/head" --output "$dir/answer" --write-out '%{http_code}' "$api$2") || exit 1
	case $status in 2*) return ;; esac
	echo "GitLab answers $1 issues$2 with HTTP $status: $(head -c 200 "$dir/answer")" >&2
	case $status in
	401 | 403) exit 77 ;;
	404) exit 66 ;;
	429)
		grep -i '^retry-after:' "$dir/head" >&2 || :
		exit 75
		;;
	esac
	exit 1
}

# list FILE QUERY writes the elements of all pages of a list to the file, one in a line.
list() {
	page=1
	: > "$1"
	while [ -n "$page" ]; do
		call GET "$2&per_page=100&page=$page"
		jq -c '.[]' "$dir/answer" >> "$1"
		page=$(sed -n 's/^[Xx]-[Nn]ext-[Pp]age: *\([0-9]*\).*/\1/p' "$dir/head")
	done
}

# issues FILE prints the answer with these issues of GitLab.
issues() {
	jq -s --arg states "$states" '{issues: map({
		id: (.iid | tostring), identifier: "GL-\(.iid)", title, description, labels, url: .web_url, created_at, updated_at, last_comment_at,
		state: (if .state == "closed" then "closed" else ([($states | split(","))[] as $s | select(.labels | index([$s])) | $s][0] // "open") end),
		assignee: (if .assignees[0] then {id: .assignees[0].username} else null end)
	})}' "$1"
}

case ${1-} in
candidates)
	list "$dir/issues" "?state=opened&order_by=created_at&sort=asc"
	issues "$dir/issues"
	;;
by-ids)
	ids=$(field '[.ids[] | select(test("^[0-9]{1,9}$")) | "&iids[]=" + .] | join("")')
	list "$dir/found" "?order_by=created_at${ids:-&iids[]=0}"
	while IFS= read -r issue; do
		echo null > "$dir/newest"
		if [ "$(printf '%s' "$issue" | jq .user_notes_count)" -gt 0 ]; then
			list "$dir/notes" "/$(printf '%s' "$issue" | jq .iid)/notes?order_by=created_at"
			jq -s 'map(select(.system | not).created_at) | max' "$dir/notes" > "$dir/newest"
		fi
		printf '%s' "$issue" | jq -c --slurpfile newest "$dir/newest" '.last_comment_at = $newest[0]'
	done < "$dir/found" > "$dir/issues"
	issues "$dir/issues"
	;;
tool | move)
	path=/$(field '.issue_id // .issue.id')
	call GET "$path"
	change=$(jq -c --arg states "$states" --arg to "$(field '.state // .arguments.state')" '($states | split(",")) as $all
		| ([("open", "closed", $all[]) | select(ascii_downcase == ($to | ascii_downcase))][0]
			// error("there is no state \($to), but open, closed and \($states)")) as $to
		| (if .state == "closed" and $to != "closed" then {state_event: "reopen"} else {} end) + (
		if $to == "closed" then {state_event: "close"}
		elif $to == "open" then {remove_labels: $states}
		else {add_labels: $to, remove_labels: ($all - [$to] | join(","))} end)' "$dir/answer") || exit 1
	call PUT "$path" "$change"
	echo '{}'
	;;
comment)
	note='{id: (.id | tostring), author: .author.username, body, created_at, edited: (.updated_at != .created_at)}'
	path=/$(field .issue_id)/notes
	# GitLab would carry out a line that begins with a slash, such as /close. A blank before it makes it a text.
	plain='{body: ([.body | split("\n")[] | if test("^\r*/") then " " + . else . end] | join("\n"))}'
	case $(field .action) in
	list)
		list "$dir/notes" "$path?order_by=created_at"
		jq -s "{comments: map(select(.system | not) | $note)}" "$dir/notes"
		;;
	post)
		call POST "$path" "$(jq -c "$plain" "$dir/request")"
		jq "{comment: $note}" "$dir/answer"
		;;
	edit)
		call PUT "$path/$(field .comment_id)" "$(jq -c "$plain" "$dir/request")"
		echo '{}'
		;;
	esac
	;;
*)
	echo "unknown verb ${1-}" >&2
	exit 1
	;;
esac
