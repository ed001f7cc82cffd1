package main

import "testing"

func TestGreeting(t *testing.T) {
	if got := Greeting("Ann"); got != "Hello, Ann" {
		t.Errorf("got %q", got)
	}
}
