package main

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sizeRows is how many packages the table of sizes names.
const sizeRows = 12

// size tells how large the program is, and of which packages.
func (b *bench) size() error {
	b.table.heading("size of the program")
	info, err := os.Stat(b.symphony)
	if err != nil {
		return err
	}
	b.table.add(figure{Name: "as it is released", Unit: "kB", Values: []float64{float64(info.Size()) / 1000}})
	full := filepath.Join(b.dir, "symphony-symbols")
	cmd := exec.CommandContext(b.ctx, "go", "build", "-trimpath", "-tags", b.o.tags, "-o", full, "./cmd/symphony")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build with symbols: %w\n%s", err, text)
	}
	sizes, err := packageSizes(full)
	if err != nil {
		b.table.unmeasured(figure{Name: "by package"}, err.Error())
		return nil
	}
	names := make([]string, 0, len(sizes))
	for name := range sizes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(sizes[b]-sizes[a], strings.Compare(a, b)) })
	for _, name := range names[:min(sizeRows, len(names))] {
		b.table.add(figure{Name: name, Unit: "kB", Values: []float64{float64(sizes[name]) / 1000}})
	}
	return nil
}

// packageSizes sums the symbols that take room in the file by their packages; what has no symbols stands by the name of
// its section.
func packageSizes(program string) (map[string]int, error) {
	file, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		return nil, err
	}
	sizes, named := map[string]int{}, map[elf.SectionIndex]int{}
	for _, s := range symbols {
		if int(s.Section) < len(file.Sections) && file.Sections[s.Section].Type == elf.SHT_PROGBITS {
			sizes[packageOf(s.Name)] += int(s.Size)
			named[s.Section] += int(s.Size)
		}
	}
	for n, section := range file.Sections {
		released := section.Flags&elf.SHF_ALLOC != 0 // debugging sections are not part of a release
		if rest := int(section.Size) - named[elf.SectionIndex(n)]; released && section.Type == elf.SHT_PROGBITS && rest > 0 {
			sizes["section "+section.Name+", without symbols"] += rest
		}
	}
	return sizes, nil
}

// packageOf is the path before the first dot after the last slash that is no part of a type's name.
func packageOf(symbol string) string {
	if name, found := strings.CutPrefix(symbol, "type:"); found {
		return "type: " + map[bool]string{true: "equality and hashes", false: "descriptions"}[strings.HasPrefix(name, ".eq") || strings.HasPrefix(name, ".hash")]
	}
	if strings.HasPrefix(symbol, "go:") {
		name, _, _ := strings.Cut(symbol, ".")
		return name
	}
	path, _, _ := strings.Cut(symbol, "[")
	path, _, _ = strings.Cut(path, "(")
	slash := strings.LastIndexByte(path, '/') + 1
	name, _, found := strings.Cut(path[slash:], ".")
	if !found {
		return "other"
	}
	return path[:slash] + strings.ReplaceAll(name, "%2e", ".")
}
