package sandbox

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// forward accepts connections at ProxyAddress, for as long as this process lives, and joins
// each to one with the proxy outside.
func forward(socket string) error {
	listener, err := net.Listen("tcp4", ProxyAddress) //nolint:noctx // until the process ends
	if err != nil {
		return fmt.Errorf("listen for the proxy: %w", err)
	}
	go func() {
		for {
			inside, err := listener.Accept()
			if err != nil { // no descriptor is left: until connections end
				time.Sleep(10 * time.Millisecond)
				continue
			}
			go relay(inside, socket)
		}
	}()
	return nil
}

// relay joins a connection to a new one with the proxy. If there is no proxy, the program sees
// its connection end.
func relay(inside net.Conn, socket string) {
	defer func() { _ = inside.Close() }()
	outside, err := net.Dial("unix", socket) //nolint:noctx // a socket of this machine
	if err != nil {
		return
	}
	defer func() { _ = outside.Close() }()
	var copied sync.WaitGroup
	copied.Go(func() { pour(outside, inside) })
	copied.Go(func() { pour(inside, outside) })
	copied.Wait()
}

// pour copies a stream to its end, and tells the reader of the end.
func pour(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close()
		_ = from.Close()
	}
}
