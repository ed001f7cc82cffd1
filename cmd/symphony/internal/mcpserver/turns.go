package mcpserver

// addTurnTools registers the tools that open conversations and carry out turns in them.
func (s *Server) addTurnTools() {}
