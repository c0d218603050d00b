package llmtap

// Bounds on one body.
const (
	maxBody  = 16 << 20  // beyond it, a body is stubbed
	stubHalf = 256 << 10 // of a stubbed body, its first and its last bytes
	maxError = 4 << 10   // of an error answer when bodies are not captured
	// What is kept of it until it is masked: one byte more tells whether a word was halved.
	errorRead = maxError + 1
	minGrow   = 4 << 10 // the first memory of a body
)

// A capture keeps the bytes of one body. Its memory is reserved in the hook's queue before it is allocated.
type capture struct {
	queue *queue
	// limit bounds what is kept, in bytes; nothing is kept where it is not positive. A body beyond maxBody is stubbed, one beyond a smaller limit
	// just ends there.
	limit int
	want  int64 // length of the body where that is known, so that no memory is left over; else not positive

	buf      []byte
	tail     []byte // of a stubbed body: its last bytes, at least stubHalf of them
	reserved int64
	lost     bool // there was no memory for it
}

func (c *capture) cut() bool { return c.tail != nil }

func (c *capture) write(p []byte) {
	if c.limit <= 0 || c.lost || len(p) == 0 {
		return
	}
	switch {
	case c.cut():
		c.writeTail(p)
	case len(c.buf)+len(p) <= c.limit:
		c.add(p)
	case c.limit < maxBody:
		c.add(p[:c.limit-len(c.buf)])
	default:
		c.stub(p)
	}
}

func (c *capture) add(p []byte) {
	if need := len(c.buf) + len(p); need > cap(c.buf) {
		size := min(max(need, 2*cap(c.buf), minGrow), c.limit)
		if int64(need) <= c.want && c.want < int64(size) {
			size = int(c.want)
		}
		if !c.hold(int64(size)) {
			return
		}
		c.buf = append(make([]byte, 0, size), c.buf...)
	}
	c.buf = append(c.buf, p...)
}

// room returns memory for a body of n bytes, to be filled and given to adopt; nil if there is none.
func (c *capture) room(n int) []byte {
	if !c.hold(int64(n)) {
		return nil
	}
	return make([]byte, n)
}

// adopt makes p the body; p is a part of what room returned.
func (c *capture) adopt(p []byte) { c.buf = p }

// stub turns a body that grows beyond maxBody by p into its first and last bytes.
func (c *capture) stub(p []byte) {
	const size = 3 * stubHalf
	if !c.hold(max(c.reserved, size)) {
		return
	}
	head := make([]byte, 0, stubHalf)
	head = append(head, c.buf[:min(stubHalf, len(c.buf))]...)
	if need := stubHalf - len(head); need > 0 {
		head, p = append(head, p[:min(need, len(p))]...), p[min(need, len(p)):]
	}
	rest := c.buf[min(stubHalf, len(c.buf)):]
	c.buf, c.tail = head, make([]byte, 0, 2*stubHalf)
	c.writeTail(rest)
	c.writeTail(p)
	c.hold(size)
}

func (c *capture) writeTail(p []byte) {
	if len(p) > stubHalf {
		p = p[len(p)-stubHalf:]
	}
	if len(c.tail)+len(p) > 2*stubHalf {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-stubHalf:]...)
	}
	c.tail = append(c.tail, p...)
}

// hold makes the reservation n bytes. Where the queue has no room for them everything is given up, and it is false.
func (c *capture) hold(n int64) bool {
	if !c.queue.reserve(n - c.reserved) {
		c.queue.release(c.reserved)
		c.buf, c.tail, c.reserved, c.lost = nil, nil, 0, true
		return false
	}
	c.reserved = n
	return true
}

// take returns the body and hands its reservation over to the caller.
func (c *capture) take() (body []byte, reserved int64) {
	body, reserved = c.buf, c.reserved
	if c.cut() {
		body = append(body, c.tail[max(0, len(c.tail)-stubHalf):]...)
	}
	c.buf, c.tail, c.reserved = nil, nil, 0
	return body, reserved
}
