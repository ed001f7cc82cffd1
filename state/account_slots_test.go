package state

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

func takeSlots(t testing.TB, a *Account, limit, want int) ([]*os.File, reconcile.Slots) {
	t.Helper()
	files, count, err := a.TakeSlots(context.Background(), limit, want)
	check(t, err)
	if len(files) != count.Free {
		t.Errorf("%d files for %+v", len(files), count)
	}
	t.Cleanup(func() { closeAll(files) })
	return files, count
}

func wantSlots(t testing.TB, got reconcile.Slots, free, taken, most int) {
	t.Helper()
	if want := (reconcile.Slots{Free: free, Taken: taken, Max: most}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Slots are taken up to the limit, and free as soon as who held them has closed them.
func TestSlots(t *testing.T) {
	a := newAccount(t)
	first, count := takeSlots(t, a, 3, 2)
	wantSlots(t, count, 2, 0, 3)
	second, count := takeSlots(t, a, 3, 5)
	wantSlots(t, count, 1, 2, 3)
	_, count = takeSlots(t, a, 3, 1)
	wantSlots(t, count, 0, 3, 3)

	counted, err := a.CountSlots(context.Background(), 3, 1)
	check(t, err)
	wantSlots(t, counted, 0, 3, 3)
	closeAll(second)
	counted, err = a.CountSlots(context.Background(), 3, 1)
	check(t, err)
	wantSlots(t, counted, 1, 2, 3)
	closeAll(first)
	_, count = takeSlots(t, a, 3, 9)
	wantSlots(t, count, 3, 0, 3)
}

// Another project may have been given a larger number: what its runs hold counts for all.
func TestSlotsBeyondTheLimit(t *testing.T) {
	a := newAccount(t)
	many, _ := takeSlots(t, a, 4, 4)
	closeAll(many[:2]) // 1 and 2
	_, count := takeSlots(t, a, 2, 2)
	wantSlots(t, count, 0, 2, 2)
	_, count = takeSlots(t, a, 3, 2)
	wantSlots(t, count, 1, 2, 3)
}

// Processes at once never have more than the limit between them, and one that is killed gives its slots back.
func TestSlotsOfProcesses(t *testing.T) {
	const limit = 3
	a := newAccount(t)
	type holder struct {
		lines *bufio.Scanner
		end   func()
	}
	var all []holder
	for range 5 {
		cmd, lines, _ := startHelper(t, "slots", a.Dir, fmt.Sprint(limit))
		all = append(all, holder{lines, func() { check(t, cmd.Process.Kill()); _ = cmd.Wait() }})
	}
	sum := 0
	for _, h := range all {
		if !h.lines.Scan() {
			t.Fatal("a holder said nothing")
		}
		var n int
		_, err := fmt.Sscan(h.lines.Text(), &n)
		check(t, err)
		sum += n
	}
	if sum != limit {
		t.Errorf("%d slots were given away, %d are there", sum, limit)
	}
	for _, h := range all {
		h.end()
	}
	_, count := takeSlots(t, a, limit, limit)
	wantSlots(t, count, limit, 0, limit)
}

// holdSlots takes two slots, says how many it got, and holds them until it is ended.
func holdSlots(args []string) error {
	a := &Account{Dir: args[0]}
	var limit int
	if _, err := fmt.Sscan(args[1], &limit); err != nil {
		return err
	}
	files, _, err := a.TakeSlots(context.Background(), limit, 2)
	if err != nil {
		return err
	}
	defer closeAll(files)
	fmt.Println(len(files))
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// What is no slot lies in the way of nobody.
func TestStrangeFileAmongSlots(t *testing.T) {
	a := newAccount(t)
	takeSlots(t, a, 1, 1)
	check(t, os.WriteFile(filepath.Join(a.Dir, slotsName, "notes.txt"), nil, 0o600))
	_, count := takeSlots(t, a, 2, 2)
	wantSlots(t, count, 1, 1, 2)
}
