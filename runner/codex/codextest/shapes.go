package codextest

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// object is a JSON object to send.
type object map[string]any

func now() int64 { return time.Now().UnixMilli() }

// newID returns an id as codex makes them: a UUID of version 7.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], uint64(now()))
	copy(b[:6], t[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// shape is a thread as thread/start, thread/resume and thread/started contain it.
func (t *thread) shape(client, home string) object {
	path := any(nil)
	if home != "" {
		path = t.file(home)
	}
	return object{
		"id": t.ID, "environments": environments(t.Cwd), "extra": nil, "sessionId": t.ID, "forkedFromId": nil, "attachedToThreadId": nil,
		"parentThreadId": nil, "preview": t.Prompt, "ephemeral": false, "section": nil, "sectionEnteredAt": nil, "projectId": nil,
		"historyMode": "paginated", "modelProvider": "scripted", "model": "scripted", "reasoningEffort": nil,
		"createdAt": t.Created, "updatedAt": time.Now().Unix(), "recencyAt": t.Created, "status": object{"type": "idle"},
		"path": path, "cwd": t.Cwd, "cliVersion": Version, "originator": client, "source": "vscode", "canAcceptDirectInput": true,
		"threadSource": nil, "agentNickname": nil, "agentRole": nil, "gitInfo": nil, "name": nil, "daybreakEnabled": nil, "turns": []any{},
	}
}

// opened is the answer to thread/start or, if resumed, to thread/resume.
func (t *thread) opened(client, home string, resumed bool) object {
	out := object{
		"thread": t.shape(client, home), "model": "scripted", "modelProvider": "scripted", "serviceTier": nil, "disabledPluginIds": []any{},
		"cwd": t.Cwd, "runtimeWorkspaceRoots": []string{t.Cwd}, "instructionSources": []any{}, "approvalPolicy": t.ApprovalPolicy,
		"approvalsReviewer": "user", "sandbox": sandboxShape(t.Sandbox), "activePermissionProfile": nil, "reasoningEffort": nil,
		"multiAgentMode": "explicitRequestOnly",
	}
	if resumed {
		out["collaborationMode"] = object{"mode": "default", "settings": object{
			"model": "scripted", "reasoning_effort": nil, "developer_instructions": nil,
		}}
		out["initialTurnsPage"] = nil
		out["turnsBackwardsCursor"] = nil
		out["itemsBackwardsCursor"] = nil
	}
	return out
}

func environments(cwd string) []object {
	return []object{{"environmentId": "local", "cwd": cwd, "runtimeWorkspaceRoots": []string{cwd}}}
}

func sandboxShape(word string) object {
	switch word {
	case "workspace-write":
		return object{
			"type": "workspaceWrite", "writableRoots": []any{}, "networkAccess": false,
			"excludeTmpdirEnvVar": false, "excludeSlashTmp": false,
		}
	case "danger-full-access":
		return object{"type": "dangerFullAccess"}
	}
	return object{"type": "readOnly", "networkAccess": false}
}

// turnShape is a turn under way. started is 0 in the answer to turn/start.
func turnShape(id string, started int64) object {
	return object{
		"id": id, "rootTurnId": id, "items": []any{}, "itemsView": "notLoaded", "status": "inProgress", "error": nil,
		"startedAt": orNull(started), "completedAt": nil, "durationMs": nil,
	}
}

func orNull(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

func errorShape(info any, text string) object {
	return object{"message": text, "codexErrorInfo": info, "additionalDetails": nil, "misalignment": nil}
}

// infoShape makes codexErrorInfo from a directive fail: a word, or KEY=STATUS for an object with an HTTP status, which may be
// empty.
func infoShape(text string) any {
	key, status, ok := strings.Cut(text, "=")
	if !ok {
		return text
	}
	var code any
	if status != "" {
		code = json.RawMessage(status)
		if !json.Valid([]byte(status)) {
			code = status
		}
	}
	return object{key: object{"httpStatusCode": code}}
}

func messageItem(id, text string) object {
	return object{
		"type": "agentMessage", "moderation": nil, "id": id, "text": text, "phase": nil, "memoryCitation": nil, "delivery": nil,
		"questions": nil,
	}
}

func commandItem(id, line, cwd string) object {
	return object{
		"type": "commandExecution", "id": id, "pluginId": nil, "scriptPath": nil, "command": "/bin/bash -lc " + quote(line), "cwd": cwd,
		"processId": nil, "source": "agent", "status": "inProgress", "commandActions": []object{{"type": "unknown", "command": line}},
		"aggregatedOutput": nil, "exitCode": nil, "durationMs": nil,
	}
}

func quote(line string) string { return "'" + strings.ReplaceAll(line, "'", `'\''`) + "'" }

func toolItem(id, tool string, args json.RawMessage) object {
	return object{
		"type": "dynamicToolCall", "id": id, "namespace": nil, "tool": tool, "arguments": args, "status": "inProgress",
		"contentItems": nil, "success": nil, "durationMs": nil,
	}
}

func fileItem(id, path, text string) object {
	return object{
		"type": "fileChange", "id": id, "status": "inProgress",
		"changes": []object{{"path": path, "kind": object{"type": "add"}, "diff": text + "\n"}},
	}
}

func usageShape(u tokens) object {
	return object{
		"totalTokens": u.Input + u.Output, "inputTokens": u.Input, "cachedInputTokens": u.Cached, "cacheWriteInputTokens": 0,
		"outputTokens": u.Output, "reasoningOutputTokens": u.Reasoning,
	}
}

func limitsShape() object {
	return object{
		"limitId": "codex", "limitName": nil, "normalModelSlug": nil, "primary": nil, "secondary": nil, "credits": nil,
		"individualLimit": nil, "spendControlReached": nil, "planType": nil, "rateLimitReachedType": nil,
	}
}
