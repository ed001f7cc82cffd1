package term

import "github.com/mdp/qrterminal/v3"

const widestQR = 64 // columns of the QR code of a link with a token, and some more

// PrintQR draws a link as a QR code on a terminal that is wide enough.
func (w *Env) PrintQR(link string) {
	if w.Width >= widestQR && w.ShowsUTF8() {
		qrterminal.GenerateHalfBlock(link, qrterminal.L, w.Stdout)
	}
}
