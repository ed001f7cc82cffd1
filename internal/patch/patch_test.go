package patch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// ofGit is a diff of git. Lines of its content look like heads, a moved file has its new name,
// and a name keeps quotes that are not git's.
const ofGit = `diff --git a/one b/one
index 1..2 100644
--- a/one
+++ b/one
@@ -8,3 +8,4 @@ diff --git a/x b/x
 kept
--- b
-diff --git a/no b/no
+++ counter
+@@ -1 +1 @@
+more
\ No newline at end of file
diff --git "a/\303\244 b" "b/\303\244 b"
new file mode 100644
--- /dev/null
+++ "b/\303\244 b"
@@ -0,0 +1 @@
+x
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-last
diff --git a/x.go b/internal/x.go
similarity index 100%
rename from x.go
rename to internal/x.go
diff --git "a/old\tname" b/new
similarity index 90%
rename from "old\tname"
rename to ` + "`new`" + `
# Not committed:
diff --git a/one b/one
Binary files a/one and b/one differ
`

// A diff that arrives in pieces is counted.
func TestFiles(t *testing.T) {
	var r Reader
	for i := range len(ofGit) {
		test.Must(r.Write([]byte{ofGit[i]}))
	}
	test.Equal(t, "the files", r.Files, []File{
		{Path: "one", Added: 3, Removed: 2, Change: FileChanged},
		{Path: "ä b", Added: 1, Change: FileAdded},
		{Path: "gone", Removed: 1, Change: FileDeleted},
		{Path: "internal/x.go", Change: FileRenamed, From: "x.go"},
		{Path: "`new`", Change: FileRenamed, From: "old\tname"},
		{Path: "one", Binary: true, NotCommitted: true, Change: FileChanged},
	})
}

// The lines of a diff have kinds and numbers, whoever wrote it and wherever it breaks off.
func TestLines(t *testing.T) {
	one, _, _ := strings.Cut(ofGit, "diff --git \"")
	for _, c := range []struct{ name, diff, want string }{
		{"git", one, `name 0 0 diff --git a/one b/one
head 0 0 index 1..2 100644
name 0 0 --- a/one
name 0 0 +++ b/one
hunk 0 0 @@ -8,3 +8,4 @@ diff --git a/x b/x
     8 8 kept
del  9 0 -- b
del  10 0 diff --git a/no b/no
add  0 9 ++ counter
add  0 10 @@ -1 +1 @@
add  0 11 more
note 0 0 No newline at end of file
`},
		{"hunks alone, and lines that no head counts", "@@ -1 +1 @@\n-a\n\\ No newline\n+b\n+c\n\n d\ne\n", `hunk 0 0 @@ -1 +1 @@
del  1 0 a
note 0 0 No newline
add  0 1 b
add  0 2 c
     2 3 
     3 4 d
     4 5 e
`},
		{"signs alone", "--- a\n+++ b\n… 9 bytes are left out …\n\\ c\n d\n", `del  0 0 -- a
add  0 0 ++ b
     0 0 … 9 bytes are left out …
     0 0 \ c
     0 0  d
`},
		{"broken off before other ones", "@@ -1,9 +1,9 @@\n-a\n@@ -20,9\ndiff --git a/x b/x\n@@ x\n+b\n", `hunk 0 0 @@ -1,9 +1,9 @@
del  1 0 a
hunk 0 0 @@ -20,9
name 0 0 diff --git a/x b/x
hunk 0 0 @@ x
add  0 0 b
`},
		{"a head without a hunk", "diff --git a/x b/x\n+a\n", "name 0 0 diff --git a/x b/x\nadd  0 0 a\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Reader
			var got strings.Builder
			added := 0
			removed := 0
			for line := range strings.Lines(c.diff) {
				l := r.Line(strings.TrimSuffix(line, "\n"))
				fmt.Fprintf(&got, "%-4s %d %d %s\n", l.Kind, l.Old, l.New, l.Text)
				if l.Kind == LineAdded {
					added++
				}
				if l.Kind == LineRemoved {
					removed++
				}
			}
			test.Equal(t, "the lines", got.String(), c.want)
			counted, gone := r.Total()
			test.Equal(t, "added and removed", []int{counted, gone}, []int{added, removed})
		})
	}
}
