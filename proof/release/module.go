package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// A released is a module of the repository.
type released struct {
	path, dir string
	file      *modfile.File
}

// modulesOf returns the modules that go.work names: those that are released.
func modulesOf(tree string) (modules []released, err error) {
	text, err := os.ReadFile(filepath.Join(tree, "go.work"))
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		return nil, err
	}
	for _, use := range work.Use {
		dir := filepath.Join(tree, filepath.FromSlash(use.Path))
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(path.Join(use.Path, "go.mod"), text, nil)
		if err != nil {
			return nil, err
		}
		if len(file.Replace) > 0 {
			return nil, fmt.Errorf("%s replaces a module: go install pkg@version refuses that", file.Syntax.Name)
		}
		if want := path.Join(root, use.Path); file.Module.Mod.Path != want {
			return nil, fmt.Errorf("%s is of module %s, not %s", file.Syntax.Name, file.Module.Mod.Path, want)
		}
		modules = append(modules, released{file.Module.Mod.Path, dir, file})
	}
	return modules, nil
}

// versionOf returns the version at which the modules require each other. They
// are released together, so there is one.
func versionOf(modules []released) (version string, err error) {
	for _, m := range modules {
		for _, r := range m.file.Require {
			if r.Mod.Path != root && !strings.HasPrefix(r.Mod.Path, root+"/") {
				continue
			}
			if version != "" && version != r.Mod.Version {
				return "", fmt.Errorf("%s requires %s, and another module %s", m.path, r.Mod, version)
			}
			version = r.Mod.Version
		}
	}
	return version, nil
}

// publish puts a module into a folder that has the form of a module proxy.
func (m released) publish(proxy, version string) (size int64, err error) {
	escaped, err := module.EscapePath(m.path)
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
	if err != nil {
		return 0, err
	}
	for name, text := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": text} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return 0, err
		}
	}
	file, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if err := zip.CreateFromDir(file, module.Version{Path: m.path, Version: version}, m.dir); err != nil {
		return 0, err
	}
	at, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return at.Size(), file.Close()
}
