package stage

// failure is an error that ends all that a script does up to the next Catch.
type failure struct{ error }

// Must panics with an error. Scripts have one answer to errors of their own: clean up, and tell.
func Must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get returns the value of a call that must not fail.
func Get[T any](value T, err error) T {
	Must(err)
	return value
}

// Catch returns the error with which f panicked by Must.
func Catch(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return nil
}
