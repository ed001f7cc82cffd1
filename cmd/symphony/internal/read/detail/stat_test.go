package detail

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestStat counts a diff that arrives in pieces, and has content that looks like the head of a
// file. A moved file has its new name, and a name keeps quotes that are not git's.
func TestStat(t *testing.T) {
	const diff = `diff --git a/one b/one
index 1..2 100644
--- a/one
+++ b/one
@@ -1,2 +1,3 @@ diff --git a/x b/x
 kept
-diff --git a/no b/no
+++ counter
+more
\ No newline at end of file
diff --git "a/\303\244 b" "b/\303\244 b"
new file mode 100644
--- /dev/null
+++ "b/\303\244 b"
@@ -0,0 +1 @@
+x
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
	var s Stat
	for i := range len(diff) {
		test.Must(s.Write([]byte{diff[i]}))
	}
	test.Equal(t, "the files", s.Files, []FileStat{
		{Path: "one", Added: 2, Removed: 1, Change: FileChanged},
		{Path: "ä b", Added: 1, Change: FileAdded},
		{Path: "internal/x.go", Change: FileRenamed, From: "x.go"},
		{Path: "`new`", Change: FileRenamed, From: "old\tname"},
		{Path: "one", Binary: true, NotCommitted: true, Change: FileChanged},
	})
}
