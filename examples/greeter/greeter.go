// Command greeter greets a person: greeter NAME
package main

import (
	"fmt"
	"os"
)

// Greeting returns the greeting for a person.
func Greeting(name string) string {
	return "Hello, " + name
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: greeter NAME")
		os.Exit(2)
	}
	fmt.Println(Greeting(os.Args[1]))
}
