package load

import (
	"bytes"
	"errors"
	"os"

	"github.com/redmux/redmux/cmd/loadgen/internal/report"
)

// pageFile is the file of the page. It is opened before anything is measured,
// so that a name that cannot be written is reported in time, and emptied only
// when there is a page to write. A nil pageFile writes nothing.
type pageFile struct{ file *os.File }

func openPage(name string) (*pageFile, error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	return &pageFile{file}, nil
}

// write replaces the content of the file by the page, and closes it. A page
// without runs is not written, and leaves no empty file.
func (f *pageFile) write(p report.Page) error {
	if f == nil {
		return nil
	}
	info, err := f.file.Stat()
	if err != nil {
		return errors.Join(err, f.file.Close())
	}
	if len(p.Runs) == 0 {
		err := f.file.Close()
		if info.Mode().IsRegular() && info.Size() == 0 {
			err = errors.Join(err, os.Remove(f.file.Name()))
		}
		return err
	}
	var page bytes.Buffer
	err = report.Write(&page, p)
	if err == nil && info.Mode().IsRegular() {
		err = f.file.Truncate(0)
	}
	if err == nil {
		_, err = f.file.Write(page.Bytes())
	}
	return errors.Join(err, f.file.Close())
}
