package detail

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestStat counts a diff that arrives in pieces, and has content that looks like the head of a
// file.
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
# Not committed:
diff --git a/one b/one
Binary files a/one and b/one differ
`
	var s Stat
	for i := range len(diff) {
		test.Must(s.Write([]byte{diff[i]}))
	}
	test.Equal(t, "the files", s.Files, []FileStat{
		{Path: "one", Added: 2, Removed: 1},
		{Path: "ä b", Added: 1},
		{Path: "one", Binary: true, NotCommitted: true},
	})
}
