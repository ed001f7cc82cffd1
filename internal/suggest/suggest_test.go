package suggest_test

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/test"
)

func TestNearest(t *testing.T) {
	known := []string{"Todo", "Done", "In Progress", "In Review", "In Progress", "n"}
	for word, want := range map[string]string{
		"toodo":      "Todo",
		"Tood":       "Todo",
		" todo ":     "Todo",
		"In progres": "In Progress",
		"Inprogress": "In Progress",
		"In Preview": "In Review",
		"Progress":   "In Progress",
		"Doing":      "",
		"xyz":        "",
		"zzzzzzzz":   "",
		"x":          "",
		"":           "",
	} {
		test.Equal(t, word, suggest.Nearest(word, known), want)
	}
	test.Equal(t, "several", suggest.Near("In Progess", known), []string{"In Progress"})
	test.Equal(t, "none", suggest.Near("xyz", known), []string{})
}

func TestInstead(t *testing.T) {
	known := []string{"name", "status", "title"}
	test.Equal(t, "a near word", suggest.Instead("stauts", known), `did you mean "status"?`)
	test.Equal(t, "no near word", suggest.Instead("xyz", known), "known are name, status and title")
	test.Equal(t, "one word", suggest.Instead("xyz", known[:1]), "only name is known")
	test.Equal(t, "no word", suggest.Instead("xyz", nil), "")
}

func TestIssue(t *testing.T) {
	known := []string{"TASK-1", "TASK-4", "Fix-the-footer"}
	for ref, want := range map[string]string{
		"TASK1":          "TASK-1",
		"TAKS-4":         "TASK-4",
		"TASK-5":         "", // another number is another issue
		"TASK-41":        "",
		"Fix-teh-footer": "Fix-the-footer",
	} {
		test.Equal(t, ref, suggest.Issue(ref, known), want)
	}
}

func TestMisspelt(t *testing.T) {
	known := []string{"Todo", "Done", "In Progress", "Human Review"}
	for name, want := range map[string]string{
		"Human Reveiw": "Human Review",
		"in progres":   "In Progress",
		"Tood":         "Todo",
		"Dome":         "Done",
		"Doing":        "",
		"Review":       "",
		"Todo later":   "",
	} {
		test.Equal(t, name, suggest.Misspelt(name, known), want)
	}
}

func TestDidYouMeanIssue(t *testing.T) {
	issues := []string{"TASK-1", "TASK-4"}
	test.Equal(t, "an issue", suggest.DidYouMeanIssue("TASK1", issues), ", did you mean TASK-1?")
	test.Equal(t, "another issue", suggest.DidYouMeanIssue("TASK-5", issues), "")
}
