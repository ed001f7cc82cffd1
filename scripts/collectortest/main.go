// Command collectortest is the OTLP receiver of OpenTelemetry's collector. It posts the
// content of an export file to the receiver, as symphony does, and prints the spans that the
// receiver passes on, and the spans that the reader of files finds. It is a separate module,
// so that the program does not depend on the collector.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	ctx := context.Background()
	sink, err := consumer.NewTraces(
		func(_ context.Context, t ptrace.Traces) error { print("received", t); return nil },
	)
	check(err)
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = os.Args[1]
	config.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	r, err := factory.CreateTraces(ctx, receivertest.NewNopSettings(factory.Type()), config, sink)
	check(err)
	check(r.Start(ctx, componenttest.NewNopHost()))
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		read, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(lines.Bytes())
		check(err)
		print("read", read)
		res, err := http.Post(
			"http://"+os.Args[1]+"/v1/traces",
			"application/json",
			bytes.NewReader(lines.Bytes()),
		)
		check(err)
		body, err := io.ReadAll(res.Body)
		check(err)
		check(res.Body.Close())
		fmt.Println("answer", res.StatusCode, string(body))
	}
	check(lines.Err())
	check(r.Shutdown(ctx))
}

// print prints the spans: trace, span, parent, name, kind, status, milliseconds and
// attributes.
func print(what string, t ptrace.Traces) {
	for _, resource := range t.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				took := s.EndTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()).Milliseconds()
				fmt.Println(
					what,
					resource.SchemaUrl(),
					resource.Resource().Attributes().AsRaw(),
					s.TraceID(),
					s.SpanID(),
					s.ParentSpanID(),
					s.Name(),
					s.Kind(),
					s.Status().Code(),
					took,
					s.Attributes().AsRaw(),
				)
			}
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
