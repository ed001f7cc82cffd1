package linear

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A server that would speak HTTP/2 is asked in HTTP/1.1.
func TestTransportProtocol(t *testing.T) {
	protocol := ""
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { protocol = r.Proto }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	ours := transport().Clone()
	ours.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	ours.TLSClientConfig.NextProtos = nil
	defer ours.CloseIdleConnections()
	for want, client := range map[string]*http.Client{"HTTP/1.1": {Transport: ours}, "HTTP/2.0": server.Client()} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if protocol != want {
			t.Errorf("protocol is %s, want %s", protocol, want)
		}
	}
}
