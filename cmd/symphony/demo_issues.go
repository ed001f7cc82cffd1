package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// demoIssue is an issue of the demo: what a person would read, and what the scripted agent does about it.
type demoIssue struct {
	title, text string
	priority    int
	blockedBy   []string
	// script has {move STATE} in the place of the mutation that moves the issue.
	script string
}

// demoIssues show one thing each: a plain run, a blocker, a failure and its retry, a second turn, and an
// issue that goes straight to the end, so that its workspace is removed.
func demoIssues() []demoIssue {
	return []demoIssue{
		{
			title: "Add a licence note", text: "Add a line about the licence to README.md. When it is committed, set the state to Done.", priority: 2,
			script: "{move In Progress}\nsh echo 'Free to use.' >> README.md && git commit -qam 'Say that it is free to use'\n{move Done}\nsay The note is in.",
		},
		{
			title: "Mention the licence in the manual", text: "Add manual.md, which refers to the licence note.", priority: 1, blockedBy: []string{"DEMO-1"},
			script: "{move In Progress}\nsh echo 'See README.md for the licence.' > manual.md && git add -A && git commit -qm 'Begin a manual'\n{move Human Review}\nsay The manual is begun.",
		},
		{
			title: "Add a greeting", text: "Add greeting.txt with a friendly word.", priority: 1,
			script: "{move In Progress}\nsh echo Hello > greeting.txt\nfail other the first attempt fails on purpose\nattempt 1+:\nsh git add -A && git commit -qm 'Add a greeting'\n{move Human Review}\nsay The second attempt did it.",
		},
		{
			title: "Add a farewell in two steps", text: "Add farewell.txt, then proofread it in a second turn.", priority: 3,
			script: "turn 1:\n{move In Progress}\nsh echo 'Good bye' > farewell.txt && git add -A && git commit -qm 'Add a farewell'\nsay Written; it is to be read once more.\nturn 2:\nsh sed -i.old 's/Good bye/Goodbye/' farewell.txt && rm farewell.txt.old && git commit -qam 'Spell the farewell'\n{move Human Review}\nsay Proofread.",
		},
		{
			title: "Count the files", text: "Add count.txt with the number of files in the repository.", priority: 4,
			script: "{move In Progress}\nsh ls | wc -l > count.txt && git add -A && git commit -qm 'Count the files'\n{move Human Review}\nsay Counted.",
		},
	}
}

func (d *playground) addIssues() error {
	for n, i := range demoIssues() {
		identifier := fmt.Sprintf("DEMO-%d", n+1)
		text := i.text
		if d.agent == "scripted" {
			script, err := d.script(identifier, i.script)
			if err != nil {
				return err
			}
			text += "\n\n```agent\n" + script + "\n```"
		}
		_, err := d.linear.AddIssue(lineartest.Issue{
			Identifier: identifier, Title: i.title, Description: &text, State: "Todo", Priority: i.priority,
			BlockedBy: i.blockedBy, CreatedAt: d.began.Add(time.Duration(n-60) * time.Minute),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// script puts the mutations in their places.
func (d *playground) script(identifier, text string) (string, error) {
	for _, state := range []string{"In Progress", "Human Review", "Done"} {
		id, err := d.linear.StateID("DEMO", state)
		if err != nil {
			return "", err
		}
		call, err := json.Marshal(map[string]any{
			"query":     "mutation($id: String!, $state: String!) { issueUpdate(id: $id, input: {stateId: $state}) { success } }",
			"variables": map[string]string{"id": identifier, "state": id},
		})
		if err != nil {
			return "", err
		}
		text = strings.ReplaceAll(text, "{move "+state+"}", "tool linear_graphql "+string(call))
	}
	return text, nil
}
