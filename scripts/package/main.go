// Command image writes an OCI image layout from tar files, one layer each, without a daemon or a registry. The same files give the
// same bytes.
package main

import (
	"flag"
	"log"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("image: ")
	out := flag.String("o", "", "the directory to write")
	arch := flag.String("arch", "", "amd64 or arm64")
	version := flag.String("version", "", "of the program")
	commit := flag.String("commit", "", "of the source")
	epoch := flag.Int64("epoch", 0, "seconds since 1970, the time of the image")
	flag.Parse()
	created := v1.Time{Time: time.Unix(*epoch, 0).UTC()}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image = check(mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: *arch, Created: created,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: "symphony", WorkingDir: "/home/symphony",
			Entrypoint: []string{"symphony", "tick", "--loop", "--stop-on-exit"},
			Env:        []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"},
			Labels: map[string]string{
				"org.opencontainers.image.title": "symphony", "org.opencontainers.image.version": *version,
				"org.opencontainers.image.revision": *commit, "org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	}))
	for _, path := range flag.Args() {
		layer := check(tarball.LayerFromFile(path, tarball.WithMediaType(types.OCILayer)))
		image = check(mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "scripts/release"}}))
	}
	name := "localhost/symphony:" + *version
	check(layout.Write(*out, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
		Platform: &v1.Platform{OS: "linux", Architecture: *arch},
		// podman reads the first, and docker the second.
		Annotations: map[string]string{"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name},
	}})))
}

func check[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
