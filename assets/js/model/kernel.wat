;; Products of a matrix with vectors: the one loop of the model that takes time.
;;
;; y[t, r] = Σ x[t, i] · w[r, i] in single precision. Four sums run beside each other, of i = 0, 4, 8 …, of 1, 5, 9 … and
;; so on, and are added as (s0 + s1) + (s2 + s3), however many vectors there are. The same order in JavaScript
;; (arithmetic.js) gives the same bits.
;;
;; assets/js/model/kernel.js has the assembled bytes; node tests/js/assemble.mjs --write makes it again.
(module
  (import "room" "memory" (memory 1))

  (func $sum (param $s v128) (result f32)
    (f32.add
      (f32.add (f32x4.extract_lane 0 (local.get $s)) (f32x4.extract_lane 1 (local.get $s)))
      (f32.add (f32x4.extract_lane 2 (local.get $s)) (f32x4.extract_lane 3 (local.get $s)))))

  ;; x: vectors × width, w: rows × width, y: vectors × rows, all by their first bytes; width is a multiple of 4.
  (func (export "products")
    (param $x i32) (param $w i32) (param $y i32) (param $vectors i32) (param $rows i32) (param $width i32)
    (local $size i32) (local $step i32) (local $end i32) (local $left i32) (local $a i32) (local $b i32) (local $out i32)
    (local $row v128) (local $s0 v128) (local $s1 v128) (local $s2 v128) (local $s3 v128)
    (local.set $size (i32.shl (local.get $width) (i32.const 2))) ;; bytes of a row of w
    (local.set $step (i32.shl (local.get $rows) (i32.const 2))) ;; bytes of a row of y
    (local.set $end (i32.add (local.get $w) (i32.mul (local.get $rows) (local.get $size))))
    (block $done
      (loop $each_row
        (br_if $done (i32.ge_u (local.get $w) (local.get $end)))
        (local.set $a (local.get $x))
        (local.set $out (local.get $y))
        (local.set $left (local.get $vectors))
        (block $no_four
          (loop $four
            (br_if $no_four (i32.lt_u (local.get $left) (i32.const 4)))
            (local.set $s0 (v128.const f32x4 0 0 0 0))
            (local.set $s1 (v128.const f32x4 0 0 0 0))
            (local.set $s2 (v128.const f32x4 0 0 0 0))
            (local.set $s3 (v128.const f32x4 0 0 0 0))
            (local.set $b (i32.const 0))
            (loop $along
              (local.set $row (v128.load (i32.add (local.get $w) (local.get $b))))
              (local.set $s0 (f32x4.add (local.get $s0) (f32x4.mul (local.get $row)
                (v128.load (i32.add (local.get $a) (local.get $b))))))
              (local.set $s1 (f32x4.add (local.get $s1) (f32x4.mul (local.get $row)
                (v128.load (i32.add (i32.add (local.get $a) (local.get $size)) (local.get $b))))))
              (local.set $s2 (f32x4.add (local.get $s2) (f32x4.mul (local.get $row)
                (v128.load (i32.add (i32.add (local.get $a) (i32.shl (local.get $size) (i32.const 1))) (local.get $b))))))
              (local.set $s3 (f32x4.add (local.get $s3) (f32x4.mul (local.get $row)
                (v128.load (i32.add (i32.add (local.get $a) (i32.mul (local.get $size) (i32.const 3))) (local.get $b))))))
              (br_if $along
                (i32.lt_u (local.tee $b (i32.add (local.get $b) (i32.const 16))) (local.get $size))))
            (f32.store (local.get $out) (call $sum (local.get $s0)))
            (local.set $out (i32.add (local.get $out) (local.get $step)))
            (f32.store (local.get $out) (call $sum (local.get $s1)))
            (local.set $out (i32.add (local.get $out) (local.get $step)))
            (f32.store (local.get $out) (call $sum (local.get $s2)))
            (local.set $out (i32.add (local.get $out) (local.get $step)))
            (f32.store (local.get $out) (call $sum (local.get $s3)))
            (local.set $out (i32.add (local.get $out) (local.get $step)))
            (local.set $a (i32.add (local.get $a) (i32.shl (local.get $size) (i32.const 2))))
            (local.set $left (i32.sub (local.get $left) (i32.const 4)))
            (br $four)))
        (block $none
          (loop $single
            (br_if $none (i32.eqz (local.get $left)))
            (local.set $s0 (v128.const f32x4 0 0 0 0))
            (local.set $b (i32.const 0))
            (loop $along
              (local.set $s0 (f32x4.add (local.get $s0) (f32x4.mul
                (v128.load (i32.add (local.get $w) (local.get $b)))
                (v128.load (i32.add (local.get $a) (local.get $b))))))
              (br_if $along
                (i32.lt_u (local.tee $b (i32.add (local.get $b) (i32.const 16))) (local.get $size))))
            (f32.store (local.get $out) (call $sum (local.get $s0)))
            (local.set $out (i32.add (local.get $out) (local.get $step)))
            (local.set $a (i32.add (local.get $a) (local.get $size)))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br $single)))
        (local.set $y (i32.add (local.get $y) (i32.const 4)))
        (local.set $w (i32.add (local.get $w) (local.get $size)))
        (br $each_row)))))
