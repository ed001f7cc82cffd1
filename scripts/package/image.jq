# The configuration of an image, from the hashes of its layers.
{
  created: $created, architecture: $arch, os: "linux",
  config: {
    User: "symphony", WorkingDir: "/home/symphony",
    Entrypoint: ["symphony", "tick", "--loop", "--stop-on-exit"],
    Env: ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"],
    Labels: {
      "org.opencontainers.image.title": "symphony", "org.opencontainers.image.version": $version,
      "org.opencontainers.image.revision": $commit, "org.opencontainers.image.licenses": "Apache-2.0"
    }
  },
  rootfs: {type: "layers", diff_ids: map("sha256:" + .)},
  history: map({created: $created, created_by: "scripts/release"})
}
