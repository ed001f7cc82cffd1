package state

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

func BenchmarkOpenRecordedEmpty(b *testing.B) {
	ctx := context.Background()
	db := newDB(b)
	dir := db.Dir()
	check(b, db.Close())
	for b.Loop() {
		db, err := Create(ctx, dir, epoch)
		check(b, err)
		_, err = db.State(ctx)
		check(b, err)
		check(b, db.Close())
	}
}

func BenchmarkOpenRecordedNoClose(b *testing.B) {
	ctx := context.Background()
	db := newDB(b)
	dir := db.Dir()
	for b.Loop() {
		db, err := Create(ctx, dir, epoch)
		check(b, err)
		_, err = db.State(ctx)
		check(b, err)
		b.StopTimer()
		check(b, db.Close())
		b.StartTimer()
	}
}

func BenchmarkRecorded500(b *testing.B) {
	ctx := context.Background()
	db := newDB(b)
	for i := range 500 {
		claim(b, db, i)
	}
	for b.Loop() {
		rec, err := db.State(ctx)
		check(b, err)
		if len(rec.Claims) != 500 {
			b.Fatal(len(rec.Claims))
		}
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	ctx := context.Background()
	for _, level := range []durability{normal, full} {
		b.Run(fmt.Sprint(level), func(b *testing.B) {
			db := newDB(b)
			run := startedRun(b, db, 1)
			now := epoch
			for b.Loop() {
				run.Beats++
				now = now.Add(5 * time.Second)
				if level == full {
					run.Turns++
				}
				_, err := db.UpdateRun(ctx, now, run)
				check(b, err)
			}
		})
	}
}

func BenchmarkSynchronousSwitch(b *testing.B) {
	ctx := context.Background()
	db := newDB(b)
	for b.Loop() {
		check(b, db.synchronous(ctx, normal))
		check(b, db.synchronous(ctx, full))
	}
}

func BenchmarkNoopPass(b *testing.B) {
	ctx := context.Background()
	db := newDB(b)
	dir := db.Dir()
	check(b, db.Close())
	skips := []reconcile.Skip{{IssueID: "i", Identifier: "A-1", Reason: reconcile.SkipNoSlot}}
	for b.Loop() {
		db, err := Create(ctx, dir, epoch)
		check(b, err)
		_, err = db.State(ctx)
		check(b, err)
		check(b, db.SaveSkips(ctx, epoch, skips))
		_, err = db.SavePass(ctx, Pass{Trigger: "cron", StartedAt: epoch})
		check(b, err)
		_, err = db.Prune(ctx, epoch, 100)
		check(b, err)
		check(b, db.Close())
	}
}
