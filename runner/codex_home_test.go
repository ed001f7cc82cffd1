package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// A thread that codex keeps in another home is not gone on with: a new one is begun, and told why. Back in the first
// home the first thread is, and told that it was not the last.
func TestThreadOfAnotherHome(t *testing.T) {
	r := newRig(t, "say hm", in("Todo"))
	r.Config.MaxTurns = 1
	first := r.ends(reconcile.Succeeded, "")
	home := filepath.Join(filepath.Dir(r.root), "codex")
	if got := r.journal.mind.home; got != home {
		t.Fatalf("the home written down is %q, want %q", got, home)
	}
	again := func(name string) (reconcile.Run, string) {
		t.Helper()
		r.next(name)
		r.run.Attempt, r.journal.finished = 1, nil
		r.journal.mind.lastRun = &first
		run := r.ends(reconcile.Succeeded, "")
		list := r.prompts(run.ThreadID)
		return run, list[len(list)-1]
	}
	r.journal.lastHome = "/srv/codex"
	second, told := again("run-2")
	if second.ThreadID == first.ThreadID {
		t.Error("a thread of another home is gone on with")
	}
	holds(t, told, []string{"Do this.\n", agent.WorkElsewhere}, agent.GuidanceTitle, agent.EarlierWork)
	if !strings.Contains(r.log.String(), "its_home=/srv/codex home="+home) {
		t.Errorf("the log does not say why:\n%s", r.log)
	}

	r.journal.earlier = reconcile.Thread{ID: first.ThreadID, WorkspaceID: first.WorkspaceID, CodexHome: home}
	third, told := again("run-3")
	if third.ThreadID != first.ThreadID {
		t.Errorf("thread %s, not %s", third.ThreadID, first.ThreadID)
	}
	holds(t, told, []string{agent.GuidanceTitle, "Since then another thread has worked on the issue"})

	// By another name it is the same.
	link := filepath.Join(filepath.Dir(home), "link")
	must(t, os.Symlink("codex", link))
	r.Config.Command = strings.Replace(r.Config.Command, "--home "+home, "--home "+link, 1)
	r.journal.lastHome, r.journal.last, r.journal.lastIn = home, first.ThreadID, first.WorkspaceID
	if fourth, _ := again("run-4"); fourth.ThreadID != first.ThreadID {
		t.Errorf("thread %s, not %s", fourth.ThreadID, first.ThreadID)
	}
}
