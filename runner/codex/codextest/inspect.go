package codextest

// inspected are the questions about account and configuration that need no thread.
var inspected = []string{"account/read", "config/read", "experimentalFeature/list", "hooks/list"}

// inspect answers one of them as a codex does whose home gives agents nothing, and whose provider needs no login.
func (s *server) inspect(m *message) {
	switch m.Method {
	case "account/read":
		s.result(m.ID, object{"account": nil, "requiresOpenaiAuth": s.o.Faults.LoggedOut})
	case "config/read":
		s.result(m.ID, object{"config": object{"model_provider": "scripted", "mcp_servers": object{}}, "origins": object{}})
	default:
		s.result(m.ID, object{"data": []any{}, "nextCursor": nil})
	}
}
