package power

import (
	"flag"
	"fmt"
	"os"
	"runtime"
)

// Main is the program. It returns the exit code: 0 after a cut, 1 where it could not do its work, 2 for wrong usage.
func Main(args []string) int {
	flags := flag.NewFlagSet("power", flag.ContinueOnError)
	cut := flags.Int("cut", 0, "the sync before which the power goes")
	lazy := flags.Bool("lazy", false, "folders as at their last sync")
	if flags.Parse(args) != nil {
		return 2
	}
	if flags.NArg() < 2 || *cut < 1 {
		flags.Usage()
		return 2
	}
	runtime.LockOSThread() // a tracer is a thread
	if err := fail(flags.Args(), *cut, *lazy); err != nil {
		fmt.Fprintln(os.Stderr, "power:", err)
		return 1
	}
	return 0
}

func fail(args []string, cut int, lazy bool) error {
	disk, err := newDisk(args[0])
	if err != nil {
		return err
	}
	t := &tracer{disk: disk, cut: cut, calls: map[int]call{}}
	where, err := t.run(args[1:])
	if err != nil {
		return err
	}
	if err := disk.restore(lazy); err != nil {
		return err
	}
	if where == "" {
		fmt.Printf("cut at the end, after %d syncs\n", t.syncs)
		return nil
	}
	fmt.Printf("cut before sync %d, of %s\n", cut, where)
	return nil
}
