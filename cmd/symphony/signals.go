package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signals returns a context that ends at SIGINT and SIGTERM. Workers and takeovers also end at SIGHUP: at a logout systemd
// sends it right after SIGTERM, and it must not kill a process that is cleaning up.
func signals(command string) (context.Context, context.CancelFunc) {
	list := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if command == "worker" || command == "takeover" {
		list = append(list, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), list...)
}
