package codextest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// step does one directive.
func (u *turn) step(s *Step) error {
	switch s.Verb {
	case "sh":
		return u.shell(s.Text)
	case "background":
		u.start(s.Text)
	case "say":
		return u.say(s.Text)
	case "think":
		u.item(object{"type": "reasoning", "summary": []string{s.Text}, "content": []any{}}, u.itemID("rs"))
	case "patch":
		return u.patch(s.Name, s.Text)
	case "tool":
		return u.tool(s.Name, s.JSON)
	case "tokens":
		u.count(int64(s.N), int64(s.M))
	case "ratelimits":
		u.s.notify("account/rateLimits/updated", object{"rateLimits": s.JSON})
	case "sleep":
		return u.sleep(s.Wait)
	case "stream":
		return u.stream(s.N, s.Wait)
	case "subagent":
		return u.subAgent(s.Text)
	case "late-response": // run reads it before the first step
	default:
		if ask, ok := u.asking(s); ok {
			return ask()
		}
		return u.fault(s)
	}
	return u.interrupted()
}

// fault does one of the directives that make a turn fail.
func (u *turn) fault(s *Step) error {
	switch s.Verb {
	case "fail":
		text := s.Text
		if text == "" {
			text = s.Name
		}
		return &end{status: "failed", info: infoShape(s.Name), text: text}
	case "cancel":
		return &end{status: "interrupted"}
	case "crash":
		u.s.mu.Lock()
		u.s.crashed = true
		u.s.mu.Unlock()
		u.s.exit <- 1
		return errCrashed
	case "hang", "silent": // they differ only in package modeltest
		<-u.ctx.Done()
	case "deaf":
		u.s.mu.Lock()
		u.s.deaf = true
		u.s.mu.Unlock()
		if u.s.o.OnDeaf != nil {
			u.s.o.OnDeaf()
		}
	case "garbage":
		u.s.write([]byte(s.Text + "\n"))
	case "long":
		u.long(s.N)
	default:
		return fmt.Errorf("line %d: no such directive: %s", s.Line, s.Verb)
	}
	return u.interrupted()
}

// itemID returns the next id of an item.
func (u *turn) itemID(prefix string) string {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	u.s.nextItem++
	return fmt.Sprintf("%s_%04d", prefix, u.s.nextItem)
}

// item sends an item that begins and ends at once.
func (u *turn) item(item object, id string) {
	at := u.itemStarted(item, id)
	u.itemCompleted(item, id, at)
}

// itemStarted sends item/started and returns its time for itemCompleted. The caller may change the item afterwards.
func (u *turn) itemStarted(item object, id string) int64 {
	at := now()
	item["id"], item["startedAtMs"], item["completedAtMs"] = id, at, nil
	u.notify("item/started", object{"item": item, "turnId": u.id, "startedAtMs": at})
	return at
}

func (u *turn) itemCompleted(item object, id string, began int64) {
	at := now()
	item["id"], item["startedAtMs"], item["completedAtMs"] = id, began, at
	u.notify("item/completed", object{"item": item, "turnId": u.id, "contentTokenCount": nil, "completedAtMs": at})
}

// say sends an agent message word by word.
func (u *turn) say(text string) error {
	id := u.itemID("msg")
	at := u.itemStarted(messageItem(id, ""), id)
	for _, word := range strings.SplitAfter(text, " ") {
		u.delta(id, word)
	}
	return u.saidAll(id, text, at)
}

func (u *turn) delta(id, text string) {
	u.notify("item/agentMessage/delta", object{"turnId": u.id, "itemId": id, "delta": text})
}

func (u *turn) saidAll(id, text string, began int64) error {
	u.itemCompleted(messageItem(id, text), id, began)
	u.said, u.saidID = text, id
	return u.interrupted()
}

// stream sends a message in n deltas, an interval apart.
func (u *turn) stream(n int, interval time.Duration) error {
	id := u.itemID("msg")
	at := u.itemStarted(messageItem(id, ""), id)
	var text strings.Builder
	for i := range n {
		word := fmt.Sprintf("%d ", i+1)
		text.WriteString(word)
		u.delta(id, word)
		if err := u.sleep(interval); err != nil {
			return err
		}
	}
	return u.saidAll(id, strings.TrimSpace(text.String()), at)
}

// count reports a model call, with plausible shares of cached and reasoning tokens.
func (u *turn) count(in, out int64) {
	u.counted = true
	last := tokens{Input: in, Cached: in / 4, Output: out, Reasoning: out / 5}
	u.s.mu.Lock()
	u.t.Total.add(last)
	total := u.t.Total
	u.s.mu.Unlock()
	u.save() // stored first: the tokens are used even if the client is gone
	u.notify("thread/tokenUsage/updated", object{"turnId": u.id, "tokenUsage": object{
		"total": usageShape(total), "last": usageShape(last), "modelContextWindow": 258400,
	}})
	u.s.notify("account/rateLimits/updated", object{"rateLimits": limitsShape()})
}

func (t *tokens) add(o tokens) {
	t.Input += o.Input
	t.Cached += o.Cached
	t.Output += o.Output
	t.Reasoning += o.Reasoning
}

// patch writes a file of the workspace. Like codex, it refuses a path outside of it with a failed item.
func (u *turn) patch(name, text string) error {
	path := u.path(name)
	id := u.itemID("call")
	item := fileItem(id, path, text)
	at := u.itemStarted(item, id)
	item["status"] = "completed"
	if err := u.writeFile(name, text); err != nil {
		item["status"] = "failed"
		u.s.log("codex_core::tools::router: error=" + err.Error())
	}
	u.itemCompleted(item, id, at)
	return u.interrupted()
}

func (u *turn) path(name string) string { return filepath.Join(u.t.Cwd, name) }

func (u *turn) writeFile(name, text string) error {
	root, err := os.OpenRoot(u.t.Cwd)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // read-only
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	return root.WriteFile(name, []byte(text+"\n"), 0o666)
}

// long sends an item whose line has about n bytes.
func (u *turn) long(n int) {
	id := u.itemID("call")
	item := commandItem(id, "cat large", u.t.Cwd)
	at := u.itemStarted(item, id)
	item["status"], item["exitCode"], item["durationMs"] = "completed", 0, 0
	item["aggregatedOutput"] = strings.Repeat("x", n)
	u.itemCompleted(item, id, at)
}

// subAgent sends what a client sees of a sub-agent: a call, and a turn of another thread.
func (u *turn) subAgent(text string) error {
	child := &turn{
		s: u.s, t: &thread{ID: newID(), Cwd: u.t.Cwd, Total: tokens{}}, id: newID(), began: time.Now(), ctx: u.ctx,
	}
	id := u.itemID("call")
	call := object{
		"type": "collabAgentToolCall", "tool": "spawnAgent", "status": "inProgress", "senderThreadId": u.t.ID,
		"receiverThreadIds": []string{}, "prompt": text, "model": "", "reasoningEffort": "medium", "agentsStates": object{},
	}
	at := u.itemStarted(call, id)
	call["status"], call["model"], call["receiverThreadIds"] = "completed", "scripted", []string{child.t.ID}
	call["agentsStates"] = object{child.t.ID: object{"status": "pendingInit", "message": nil}}
	u.itemCompleted(call, id, at)
	child.status(object{"type": "active", "activeFlags": []any{}})
	child.notify("turn/started", object{"turn": turnShape(child.id, child.began.Unix())})
	msg := child.itemID("msg")
	child.item(messageItem(msg, text), msg)
	child.said, child.saidID = text, msg
	child.count(1000, 50)
	child.status(object{"type": "idle"})
	item := messageItem(msg, text)
	item["startedAtMs"], item["completedAtMs"] = now(), now()
	child.notify("turn/completed", object{"turn": object{
		"id": child.id, "rootTurnId": child.id, "items": []any{item}, "itemsView": "summary", "status": "completed", "error": nil,
		"startedAt": child.began.Unix(), "completedAt": time.Now().Unix(), "durationMs": time.Since(child.began).Milliseconds(),
	}})
	return u.interrupted()
}
