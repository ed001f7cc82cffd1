package linear

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// transport is shared by all clients of the process, so that a loop's passes keep their connection. It speaks HTTP/1.1
// alone: two requests at once is the most a pass makes, and to set HTTP/2 up takes net/http a twelfth of a pass with
// nothing to do, whatever protocol is spoken then.
var transport = sync.OnceValue(func() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:           protocols,
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: requestTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
	}
})
