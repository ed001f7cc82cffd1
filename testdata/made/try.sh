# Runs a list of commands and prints it with the results: "works", "partly" if the command succeeds but prints an error, or
# "fails", each followed by the output or by the first error. The script's directory, the remote's port and the ids of commits,
# which differ between runs, are replaced.
export LC_ALL=C
work=$(cd "$(dirname "$0")" && pwd -P)
first_error() {
	grep -E '(^|: )(error|fatal|warning): |^CONFLICT|rejected[]]|Read-only file system' | head -n 1
}
while IFS= read -r line; do
	case $line in
	works\ * | partly\ * | fails\ *) command=$(printf '%s\n' "$line" | sed 's/^[a-z]* *//') ;;
	' '*) continue ;;
	*) printf '%s\n' "$line"; continue ;;
	esac
	result=works
	said=$(sh -c "$command" </dev/null 2>&1) || result=fails
	why=
	if [ -n "$said" ]; then why=$(printf '%s\n' "$said" | first_error); fi
	case $result$why in
	works) why=$said ;;
	works*) result=partly ;;
	fails) why=$(printf '%s\n' "$said" | head -n 1) ;;
	esac
	printf '%-8s %s\n' $result "$command"
	if [ -n "$why" ]; then
		printf '%s\n' "$why" | sed -e "s|$work|WORK|g" -e 's|127[.]0[.]0[.]1[:[][^]/ ]*[]]\{0,1\}|REMOTE|g' \
			-e 's/[0-9a-f]\{7,\}[.][.][.]/ID.../' -e 's/^ */         /'
	fi
done <"$1"
