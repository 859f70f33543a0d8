package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// images are the files of one node's volumes and snapshots:
//
//	volumes/NAME            the filesystem of a volume, sparse
//	mounts/NAME             a symbolic link to where that volume is mounted
//	snapshots/NAME/image    a copy of a volume
//	snapshots/NAME/volume   the name of that volume
//
// Names are those that the sidecars choose (pvc-UID, snapshot-UID), so that a call that is repeated finds what it made.
// What ends in .partial is not finished.
type images struct {
	folder string
	// format makes a filesystem in a file.
	format func(path string) error
}

// snapshot is a copy of a volume as it was at one moment.
type snapshot struct {
	name, volume string
	bytes        int64
	taken        time.Time
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,127}$`)

func openImages(folder string, format func(path string) error) (*images, error) {
	for _, part := range []string{"volumes", "mounts", "snapshots"} {
		if err := os.MkdirAll(filepath.Join(folder, part), 0o700); err != nil {
			return nil, err
		}
	}
	unfinished, err := filepath.Glob(filepath.Join(folder, "*", "*.partial"))
	if err != nil {
		return nil, err
	}
	for _, path := range unfinished {
		if err := os.RemoveAll(path); err != nil {
			return nil, err
		}
	}
	return &images{folder, format}, nil
}

// path leads to a file of this name; a name that cannot be one of ours leads to none.
func (i *images) path(kind, name string) string {
	if !goodName.MatchString(name) {
		return filepath.Join(i.folder, kind, "no-such-name")
	}
	return filepath.Join(i.folder, kind, name)
}

func (i *images) volume(name string) string { return i.path("volumes", name) }
func (i *images) mount(name string) string  { return i.path("mounts", name) }

func (i *images) volumeBytes(name string) (int64, error) {
	found, err := os.Stat(i.volume(name))
	if err != nil {
		return 0, err
	}
	return found.Size(), nil
}

func (i *images) createVolume(name string, bytes int64) error {
	return i.fillVolume(name, bytes, func(path string) error {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return err
		}
		return os.Truncate(path, bytes)
	}, i.format)
}

// restoreVolume makes a volume of a snapshot. Its filesystem is as large as it was; it grows when it is mounted.
func (i *images) restoreVolume(name, snapshot string, bytes int64) error {
	return i.fillVolume(name, bytes, func(path string) error {
		return copySparse(filepath.Join(i.path("snapshots", snapshot), "image"), path)
	}, func(path string) error { return os.Truncate(path, bytes) })
}

func (i *images) fillVolume(name string, bytes int64, steps ...func(path string) error) error {
	partial := i.volume(name) + ".partial"
	for _, step := range steps {
		if err := step(partial); err != nil {
			return errors.Join(err, ignoreMissing(os.Remove(partial)))
		}
	}
	return os.Rename(partial, i.volume(name))
}

func (i *images) deleteVolume(name string) error { return ignoreMissing(os.Remove(i.volume(name))) }

// takeSnapshot copies a volume; the caller sees to it that nobody writes meanwhile.
func (i *images) takeSnapshot(name, volume string) error {
	partial := i.path("snapshots", name) + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.Mkdir(partial, 0o700); err != nil {
		return err
	}
	taken := time.Now()
	image := filepath.Join(partial, "image")
	if err := copySparse(i.volume(volume), image); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	if err := os.Chtimes(image, taken, taken); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(partial, "volume"), []byte(volume), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, i.path("snapshots", name))
}

func (i *images) snapshot(name string) (snapshot, error) {
	folder := i.path("snapshots", name)
	image, err := os.Stat(filepath.Join(folder, "image"))
	if err != nil {
		return snapshot{}, err
	}
	volume, err := os.ReadFile(filepath.Join(folder, "volume"))
	if err != nil {
		return snapshot{}, err
	}
	return snapshot{name: name, volume: string(volume), bytes: image.Size(), taken: image.ModTime()}, nil
}

// snapshots are all of this node, by name.
func (i *images) snapshots() ([]snapshot, error) {
	entries, err := os.ReadDir(filepath.Join(i.folder, "snapshots"))
	if err != nil {
		return nil, err
	}
	var all []snapshot
	for _, entry := range entries {
		if !goodName.MatchString(entry.Name()) {
			continue
		}
		found, err := i.snapshot(entry.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	slices.SortFunc(all, func(a, b snapshot) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

func (i *images) deleteSnapshot(name string) error { return os.RemoveAll(i.path("snapshots", name)) }

// formatXFS: ext4 would grow only where the machine has CAP_SYS_RESOURCE. The zeros of the log become a hole.
func formatXFS(path string) error {
	return errors.Join(run("mkfs.xfs", "-q", path), run("fallocate", "--dig-holes", path))
}

// Holes stay holes; where the node's filesystem can, blocks are shared instead of copied.
func copySparse(from, to string) error {
	return run("cp", "--sparse=always", "--reflink=auto", from, to)
}

func run(program string, arguments ...string) error {
	output, err := exec.Command(program, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
