package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// lab holds the one database in which all schedules are played one after the other, and the mechanisms that are disabled
// in them.
type lab struct {
	sql *sql.DB
	// changed counts the modified statements.
	changed int
	without
}

// without disables mechanisms of the program, to see whether the oracle notices.
type without struct {
	projectLock    bool
	exclusiveReap  bool     // a pass ends a dead run without holding its alive file
	rowBeforeSpawn bool     // the worker is started before its row is there
	sql            []string // conditions of statements, each followed by its replacement
}

func newLab(t testing.TB, w without) *lab {
	t.Helper()
	ctx := context.Background()
	plain, err := sql.Open("sqlite", ":memory:")
	check(t, err)
	l := &lab{without: w}
	l.sql = sql.OpenDB(&memory{plain.Driver(), strings.NewReplacer(w.sql...), &l.changed})
	check(t, plain.Close())
	l.sql.SetMaxOpenConns(1)
	t.Cleanup(func() { check(t, l.sql.Close()) })
	check(t, migrate(ctx, l.sql, migrations, 0, schemaVersion, epoch))
	return l
}

// memory opens databases in memory and can modify statements on their way.
type memory struct {
	driver driver.Driver
	change *strings.Replacer
	hits   *int
}

// Driver implements driver.Connector.
func (m *memory) Driver() driver.Driver { return m.driver }

// Connect implements driver.Connector.
func (m *memory) Connect(context.Context) (driver.Conn, error) {
	c, err := m.driver.Open(":memory:")
	if err != nil {
		return nil, err
	}
	whole, ok := c.(wholeConn)
	if !ok {
		return nil, fmt.Errorf("the driver's connection is a %T", c)
	}
	return &changedConn{whole, m.change, m.hits}, nil
}

// wholeConn is what database/sql uses of a connection.
type wholeConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type changedConn struct {
	wholeConn
	change *strings.Replacer
	hits   *int
}

func (c *changedConn) changed(query string) string {
	other := c.change.Replace(query)
	if other != query {
		*c.hits++
	}
	return other
}

func (c *changedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.wholeConn.ExecContext(ctx, c.changed(query), args)
}

func (c *changedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.wholeConn.QueryContext(ctx, c.changed(query), args)
}

// open is what every process does for itself: its own DB, on the one connection. No two transactions overlap, because each
// is within one step.
func (l *lab) open() *DB { return newDB(&conn{dir: "/in/memory", sql: l.sql, schema: schemaVersion}) }

// model is the world around the database.
type model struct {
	lab     *lab
	now     time.Time
	locks   map[string]*actor // held exclusively, by name
	leases  map[string]string // the run that holds it, by issue
	workers map[string]*workerProcess
	agents  map[string]bool // by run: lives
	issues  map[string]reconcile.Issue
	conduct conduct // of workers to come
	// scheduled reports that a schedule is alive, so that operators' passes may start runs.
	scheduled bool
	calm      bool // no process has died and no wait has timed out
	dirty     bool // the rows have changed since they were read
	rows      *dbRows
	saved     []byte  // a copy of the database as it is, if there is one
	seen      *dbRows // the rows that the oracle saw last
	wrong     []string
	given     []reconcile.Command // by operators, as stored
	ids       map[string]int
}

type workerProcess struct {
	actor      *actor
	answered   bool
	taken      bool
	terminated bool
}

// conduct is what a worker's agent does.
type conduct struct {
	tokens  int64
	handoff string // the state it moves its issue to
	fails   bool
	// brief leaves heartbeats out.
	brief bool
	// follow starts a pass of the worker's own at its end.
	follow bool
}

func (m *model) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.locks)) {
		fmt.Fprintln(&b, name, m.locks[name].name)
	}
	for _, id := range slices.Sorted(maps.Keys(m.workers)) {
		w := m.workers[id]
		fmt.Fprintln(&b, id, w.answered, w.taken, w.terminated, w.actor.over)
	}
	for _, id := range slices.Sorted(maps.Keys(m.issues)) {
		fmt.Fprintln(&b, id, m.issues[id].State)
	}
	fmt.Fprintln(&b, m.leases, m.agents, m.calm, m.given, m.wrong)
	return b.String()
}

// begin empties the database and sets the scene up, or replays both from the tape.
func (l *lab) begin(sc scene, seed maphash.Seed, t tape) *schedule {
	s := &schedule{seed: seed, tape: t, faults: sc.faults, model: &model{
		lab: l, now: epoch, locks: map[string]*actor{}, leases: map[string]string{},
		workers: map[string]*workerProcess{}, agents: map[string]bool{}, issues: map[string]reconcile.Issue{},
		conduct: conduct{tokens: 10, brief: true}, calm: true, dirty: true, ids: map[string]int{},
	}}
	const reset = `DELETE FROM claims; DELETE FROM runs; DELETE FROM commands; DELETE FROM threads; DELETE FROM skips;
		DELETE FROM issue_totals; DELETE FROM sqlite_sequence; DELETE FROM meta WHERE key IN ('paused', 'last_sweep');
		UPDATE meta SET value = '0' WHERE key LIKE 'totals_%'`
	s.must(answered(&s.tape, func() (sql.Result, error) { return l.sql.ExecContext(context.Background(), reset) }))
	sc.setUp(s)
	return s
}

// image copies a whole database from and to a connection.
type image interface {
	Serialize() ([]byte, error)
	Deserialize([]byte) error
}

func (l *lab) image(f func(image) error) {
	conn, err := l.sql.Conn(context.Background())
	if err == nil {
		err = conn.Raw(func(c any) error {
			return f(c.(*changedConn).wholeConn.(image))
		})
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		panic(err)
	}
}

// copy saves the database as it is.
func (m *model) copy() []byte {
	if m.saved == nil {
		m.lab.image(func(i image) (err error) { m.saved, err = i.Serialize(); return err })
	}
	return m.saved
}

// restore brings a saved database back.
func (m *model) restore(saved []byte) {
	m.lab.image(func(i image) error { return i.Deserialize(saved) })
	m.saved, m.dirty = saved, true
}

// must fails on an error of the scene's set-up, which is a mistake in these files.
func (s *schedule) must(_ any, err error) {
	if err != nil {
		panic(err)
	}
}

// gone releases what a process held when it ended or was killed. Its agent lives on until it sees the end of its input, or
// is found.
func (s *schedule) gone(a *actor) {
	maps.DeleteFunc(s.locks, func(_ string, holder *actor) bool { return holder == a })
	for id, w := range s.workers {
		if w.actor != a {
			continue
		}
		if s.agents[id] {
			s.enter("orphan of "+id, func(a *actor) {
				a.step("end")
				s.endAgent(id)
			})
			continue
		}
		s.endAgent(id)
	}
}

func (s *schedule) endAgent(id string) {
	delete(s.agents, id)
	maps.DeleteFunc(s.leases, func(_, holder string) bool { return holder == id })
}

// storing is a step that changes the database.
func storing[T any](a *actor, op string, f func() (T, error)) (T, error) {
	a.step(op)
	v, err := answered(&a.tape, f)
	a.dirty, a.saved = true, nil
	a.acted = err == nil
	text, jsonErr := jsonOf(v).Value() // pointers print as addresses
	a.learn(text, err)
	return v, errors.Join(err, jsonErr)
}

func nothing(err error) (struct{}, error) { return struct{}{}, err }
